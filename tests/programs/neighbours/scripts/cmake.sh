#!/bin/sh
# SPDX-License-Identifier: MIT
. "$SCRIPTS/sources.sh"
cat >CMakeLists.txt <<'END'
cmake_minimum_required(VERSION 3.18)
project(p C)
file(GLOB s *.c)
add_executable(p ${s})
find_package(Threads REQUIRED)
enable_testing()
add_test(t p)
END
cmake -G Ninja -B b >log
sed '/detect\|Found\|identification\|Configuring done\|Generating done/d' log
ninja -C b -j4 | tail -n 1
(cd b && ctest 2>&1 | grep -e 'tests passed' -e Failed | sed 's/ *[0-9.]* sec.*//')
b/p || echo "$?"
rm -rf b log
