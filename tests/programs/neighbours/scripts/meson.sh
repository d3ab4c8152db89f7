#!/bin/sh
# SPDX-License-Identifier: MIT
. "$SCRIPTS/sources.sh"
cat >meson.build <<'END'
project('p', 'c')
sources = run_command('sh', '-c', 'ls *.c', check: true).stdout().split()
test('t', executable('p', sources), should_fail: true)
END
meson setup b >log 2>&1 || cat log
ninja -C b | tail -n 1
meson test -C b 2>&1 | grep -e Expected -e '^Fail'
rm -rf b log
