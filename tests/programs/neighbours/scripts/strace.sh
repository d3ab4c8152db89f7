#!/bin/sh
# SPDX-License-Identifier: MIT
cp "$SCRIPTS/sums.c" .
cc -g -O0 -o p sums.c

strace -f -qq -e trace=write,exit_group,execve -e signal=none -o log sh -c './p; ./p 1 2; true' || :
sed 's/^[0-9]* *//; s/0x[0-9a-f]* .* vars/ENV/' log
rm log
