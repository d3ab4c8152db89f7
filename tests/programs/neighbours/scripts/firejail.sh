#!/bin/sh
# SPDX-License-Identifier: MIT
firejail --quiet --noprofile --net=none sh -c 'echo inside
	set -- /proc/[0-9]*
	test $# -lt 9
	echo $?
	exit 3' || echo "$?"
firejail --quiet --noprofile --seccomp --caps.drop=all /usr/bin/python3 -c 'print(sum(range(10)))' || echo "$?"
