# SPDX-License-Identifier: MIT
"""What a Python program can see of the interpreter that it runs in; for any version."""
import gc
import os
import signal
import site
import sys
import threading

print(sorted(k for k in os.environ if not k.startswith(("LD_", "TSSHIM_"))))
print(os.environ.get("PYTHONPATH"), "PYTHONPATH" in os.environ)
print(sys.argv, sys.flags, sys.prefix, sys.executable)
print(sys.path, site.ENABLE_USER_SITE, len(sys.path_hooks))
print(sorted(map(str, sys.path_importer_cache)))
print(sorted(os.listdir("/proc/self/fd")), threading.active_count())
if hasattr(signal, "getsignal"):
    print([signal.getsignal(n) for n in range(1, 65)])
print(sys.excepthook is sys.__excepthook__, sys.gettrace(), sys.getprofile())
print(sys.getrecursionlimit(), gc.isenabled(), sys.stdout.encoding)
print(sorted(n for n in sys.modules if n != "sitecustomize"))
try:
    import not_there  # noqa
except ImportError as error:
    print(type(error), error)
sys.exit(3)
