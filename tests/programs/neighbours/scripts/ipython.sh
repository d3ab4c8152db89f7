#!/bin/sh
# SPDX-License-Identifier: MIT
export HOME="$PWD" IPYTHONDIR="$PWD/i"
ipython3 --no-banner --no-confirm-exit --colors=NoColor -c 'import os
print(sorted(k for k in os.environ if not k.startswith(("LD_", "TSSHIM"))))
get_ipython().system("echo sub")'
rm -rf i .cache
