# SPDX-License-Identifier: MIT
"""Compilers, build systems and installers."""
from table import program

SOURCES = r"""
for i in $(seq 12); do echo "int f$i(int a) { return a * $i; }" >f$i.c; done
{ for i in $(seq 12); do echo "int f$i(int);"; done; echo '#include <stdio.h>'; echo 'int main(void) { int s = 0;'; for i in $(seq 12); do echo "s += f$i($i);"; done; echo 'printf("%d", s); puts(""); return s == 650 ? 3 : 1; }'; } >main.c
"""

ROWS = [
    program("builds", "gcc", "gcc, ld, ar, as, with link-time optimisation", SOURCES + r"""
gcc -O2 -pipe -g -c *.c; ar rcsD l.a f*.o; gcc -o p main.o l.a; ./p || echo "$?"; sha256sum main.o l.a; gcc -O2 -flto=2 -save-temps=obj -o q *.c; ./q || echo "$?"; echo 'int x = ;' | gcc -c -x c - 2>&1 || echo "$?"
strip p; nm -D p | grep -c . ; objdump -d main.o | tail -3; gcc -shared -fPIC -o l.so f*.c; readelf -d l.so | grep -c STRTAB; rm -f p q* *.o l.* a-*
""", needs=("gcc",), core=True),
    program("builds", "clang", "clang", SOURCES + r"""
clang -O2 -o p *.c; ./p || echo "$?"; clang -O1 -S -o - main.c | sha256sum; echo 'int x = ;' | clang -c -x c - 2>&1 || echo "$?"; rm -f p
""", packages=("clang",)),
    program("builds", "ccache", "ccache", SOURCES + r"""
export CCACHE_DIR=$PWD/c CCACHE_CONFIGPATH=$PWD/none; for turn in 1 2; do for f in *.c; do ccache gcc -O2 -c $f & done; wait; done; sha256sum main.o; ccache --print-stats | grep -e direct_cache_hit -e '^cache_miss'; rm -rf c *.o
""", packages=("ccache",)),
    program("builds", "cmake", "CMake with Ninja", SOURCES + r"""
printf 'cmake_minimum_required(VERSION 3.18)\nproject(p C)\nfile(GLOB s *.c)\nadd_executable(p ${s})\nfind_package(Threads REQUIRED)\nenable_testing()\nadd_test(t p)\n' >CMakeLists.txt
cmake -G Ninja -B b >log; sed '/detect\|Found\|identification\|Configuring done\|Generating done/d' log; ninja -C b -j4 | tail -1; (cd b && ctest 2>&1 | grep -e 'tests passed' -e Failed | sed 's/ *[0-9.]* sec.*//'); b/p || echo "$?"; rm -rf b log
""", needs=("cmake", "ninja"), packages=("cmake", "ninja-build")),
    program("builds", "meson", "Meson", SOURCES + r"""
printf "project('p', 'c')\ne = executable('p', run_command('sh', '-c', 'ls *.c', check: true).stdout().split())\ntest('t', e, should_fail: true)\n" >meson.build
meson setup b >log 2>&1 || cat log; ninja -C b | tail -1; meson test -C b 2>&1 | grep -e Expected -e '^Fail'; rm -rf b log
""", needs=("meson", "ninja")),
    program("builds", "pip", "pip, of a wheel", r"""
mkdir -p w/p-1.dist-info; echo 'x = 1' >w/p.py; cd w; printf 'Metadata-Version: 2.1\nName: p\nVersion: 1\n' >p-1.dist-info/METADATA; printf 'Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n' >p-1.dist-info/WHEEL
printf 'p.py,,\np-1.dist-info/METADATA,,\np-1.dist-info/WHEEL,,\np-1.dist-info/RECORD,,\n' >p-1.dist-info/RECORD; /usr/bin/python3 -m zipfile -c ../p-1-py3-none-any.whl *; cd ..
/usr/bin/python3 -m venv v; v/bin/pip install --disable-pip-version-check --no-index -q ./p-1-py3-none-any.whl; v/bin/pip --disable-pip-version-check list --format=freeze | grep p=; v/bin/python -c 'import p, sys; print(p.x, "_distutils_hack" in sys.modules)'; v/bin/pip --disable-pip-version-check check; rm -rf v w *.whl
""", needs=("/usr/lib/python3*/ensurepip",), packages=("python3-venv",)),
    program("builds", "apt", "dpkg, dpkg-deb, apt-cache", r"""
mkdir -p d/DEBIAN; printf 'Package: p\nVersion: 1\nArchitecture: all\nMaintainer: m <m@example.org>\nDescription: d\n' >d/DEBIAN/control; touch -d @0 d d/DEBIAN d/DEBIAN/control; dpkg-deb --root-owner-group -b d p.deb; dpkg-deb -c p.deb | cut -c1-20; dpkg-deb -I p.deb | tail -3; dpkg -l bash | tail -1; dpkg -S /bin/sh 2>&1 | tail -1; apt-cache policy bash | head -1; rm -rf d p.deb
""", needs=("dpkg-deb", "apt-cache")),
]
