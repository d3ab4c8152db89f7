#!/bin/sh
# SPDX-License-Identifier: MIT
export HOME="$PWD" IPYTHONDIR="$PWD/i" JUPYTER_CONFIG_DIR="$PWD/c" JUPYTER_RUNTIME_DIR="$PWD/r"
export JUPYTER_PLATFORM_DIRS=1 PYTHONWARNINGS=ignore
/usr/bin/python3 "$SCRIPTS/kernel.py" 2>/dev/null
rm -rf i c r .ipython .local
