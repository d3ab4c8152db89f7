#!/bin/sh
# SPDX-License-Identifier: MIT
# ${INTERPRETER}, or the system's.
P() { ${INTERPRETER:-/usr/bin/python3} "$@"; }
cp "$SCRIPTS/look.py" .
for option in '' -I -E -S -s -B -O -u -Xutf8; do
	P $option look.py $option || echo "$?"
done
PYTHONPATH=here:there P look.py || echo "$?"
PYTHONPATH='' P look.py || echo "$?"
P -c 'import sys; print(sys.argv); raise KeyError(1)' a 2>&1 || echo "$?"
echo 'print(1); 1/0' | P - 2>&1 || echo "$?"
P -m this | tail -1
P -m json.tool </dev/null 2>&1 | tail -1
P --version
P -h | head -1 | sed 's/.*python/python/'
P missing.py 2>&1 | sed 's/^[^:]*: //' || :
P -c 'import os; os.execv("/bin/echo", ["echo", os.environ.get("PYTHONPATH", "none")])'
rm -rf __pycache__
