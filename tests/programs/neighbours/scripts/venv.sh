#!/bin/sh
# SPDX-License-Identifier: MIT
/usr/bin/python3 -m venv --without-pip env
env/bin/python -c 'import sys, os
print(sys.prefix != sys.base_prefix, sys.path, os.environ.get("PYTHONPATH"))'
env/bin/python -I -c 'import sys; print(sys.path)'
echo 'import sys; sys.marked = 1' >"$(ls -d env/lib/python3.*/site-packages)/sitecustomize.py"
env/bin/python -c 'import sys; print(hasattr(sys, "marked"), "sitecustomize" in sys.modules)'
rm -rf env
