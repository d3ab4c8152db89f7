# SPDX-License-Identifier: MIT
"""A kernel of Jupyter's is started, asked, and stopped."""
from jupyter_client.manager import start_new_kernel

manager, client = start_new_kernel(kernel_name="python3")
for code in ("print(6 * 7)", "!echo from a shell",
             "import os; print(os.environ.get('PYTHONPATH'))", "1 / 0"):
    reply = client.execute_interactive(code, timeout=60)
    print(reply["content"]["status"], reply["content"].get("ename"))
client.stop_channels()
manager.shutdown_kernel(now=False)
print(manager.is_alive())
