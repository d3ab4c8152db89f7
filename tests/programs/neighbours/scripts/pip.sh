#!/bin/sh
# SPDX-License-Identifier: MIT
mkdir -p w/p-1.dist-info
(
	cd w || exit
	echo 'x = 1' >p.py
	printf '%s\n' 'Metadata-Version: 2.1' 'Name: p' 'Version: 1' >p-1.dist-info/METADATA
	printf '%s\n' 'Wheel-Version: 1.0' 'Generator: x' 'Root-Is-Purelib: true' 'Tag: py3-none-any' \
		>p-1.dist-info/WHEEL
	printf '%s,,\n' p.py p-1.dist-info/METADATA p-1.dist-info/WHEEL p-1.dist-info/RECORD \
		>p-1.dist-info/RECORD
	/usr/bin/python3 -m zipfile -c ../p-1-py3-none-any.whl *
)
/usr/bin/python3 -m venv v
v/bin/pip install --disable-pip-version-check --no-index -q ./p-1-py3-none-any.whl
v/bin/pip --disable-pip-version-check list --format=freeze | grep p=
v/bin/python -c 'import p, sys; print(p.x, "_distutils_hack" in sys.modules)'
v/bin/pip --disable-pip-version-check check
rm -rf v w *.whl
