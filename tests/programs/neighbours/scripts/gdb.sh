#!/bin/sh
# SPDX-License-Identifier: MIT
cp "$SCRIPTS/sums.c" .
cc -g -O0 -o p sums.c

gdb -nx -batch -ex 'set disable-randomization on' -ex 'break sum' -ex run -ex bt -ex finish \
	-ex 'info inferiors' -ex 'python print(1 + 1)' -ex continue ./p 2>&1 |
	sed 's/0x[0-9a-f]*/ADDRESS/g; s/process [0-9]*/process/g; s/\(Inferior 1 (process\)[^)]*/\1/'
