# SPDX-License-Identifier: MIT
"""Other preloads and memory allocators, in front of us and behind us."""
from table import program

# with NAME WORD...: a command under another preload, in both orders; ours is what was there before.
WITH = r"""
ours=${LD_PRELOAD-}
with() {
	other=$(ls $1 | head -1); shift
	LD_PRELOAD=$other${ours:+:$ours} "$@" || echo "status $?"
	LD_PRELOAD=${ours:+$ours:}$other "$@" || echo "status $?"
}
"""

LOAD = WITH + r"""
set -- PATTERN
with "$1" djpeg -ppm $PICTURES/s_baseline.jpg | sha256sum
with "$1" /usr/bin/python3 -c 'import threading, os
def work(): [bytearray(n * 100) for n in range(500)]
threads = [threading.Thread(target=work) for _ in range(8)]
[t.start() for t in threads]; [t.join() for t in threads]
print(os.spawnlp(os.P_WAIT, "sh", "sh", "-c", "exit 3"), len(open("/etc/passwd").read()) > 0)'
with "$1" sh -c 'seq 20000 | sort -R --random-source=/bin/sh | sort -n | sha256sum; ls -d /proc/self/task/* | wc -l'
"""


def allocator(name, library, package):
    return program("preloads", name, name, LOAD.replace("PATTERN", "'%s'" % library),
                   needs=("djpeg", library), packages=(package,), core=name == "jemalloc", jobs=2)


SANITIZED = r"""
cat >a.c <<'END'
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv) { char *v = malloc(8); FILE *f = fopen("a.c", "r"); int c = fgetc(f); fclose(f); printf("%c\n", c); c = argc > 1 ? v[8] : 0; free(v); return c; }
END
"""

ROWS = [
    allocator("jemalloc", "/usr/lib/*/libjemalloc.so.2", "libjemalloc2"),
    allocator("tcmalloc", "/usr/lib/*/libtcmalloc_minimal.so.4", "libtcmalloc-minimal4"),
    allocator("mimalloc", "/usr/lib/*/libmimalloc.so.2*", "libmimalloc2.0"),
    program("preloads", "faketime", "libfaketime", r"""
TZ=UTC faketime -f '@2001-02-03 04:05:06' date; faketime '2001-02-03 04:05:06' /usr/bin/python3 -c 'import time; print(time.localtime()[:5])'
TZ=UTC faketime '2001-02-03' sh -c 'date +%Y; sleep 0; wc -l </etc/hostname'
""", packages=("faketime",)),
    program("preloads", "fakeroot", "fakeroot", r"""
fakeroot sh -c 'touch f; chown 12:34 f; chmod 4755 f; mknod n c 1 3; stat -c "%u %g %a %F" f n; tar -cf - f n | tar -tvf - | cut -c1-22; rm n; id -u
mkdir d; cp -a f d/g; /usr/bin/python3 -c "import os; s = os.stat(\"d/g\"); print(s.st_uid, s.st_gid, oct(s.st_mode)); os.chown(\"d/g\", 5, 6); f = open(\"d/g\"); print(os.fstat(f.fileno()).st_uid)"; ls -ln d | cut -c1-20'; rm -rf f d
""", packages=("fakeroot",)),
    program("preloads", "eatmydata", "eatmydata", r"""
eatmydata dd if=/bin/sh of=f bs=4k count=9 conv=fsync status=none; cmp -n 36864 f /bin/sh; eatmydata sh -c 'sync; echo $?'
eatmydata sqlite3 db 'create table t (a); insert into t values (1), (2); select sum(a) from t'; rm f db
""", needs=("eatmydata", "sqlite3"), packages=("eatmydata",)),
    program("preloads", "nss_wrapper", "libnss_wrapper", WITH + r"""
echo 'somebody:x:4242:4242:::/bin/sh' >passwd; echo 'some:x:4242:' >group; export NSS_WRAPPER_PASSWD=$PWD/passwd NSS_WRAPPER_GROUP=$PWD/group
with '/usr/lib/*/libnss_wrapper.so' id somebody; with '/usr/lib/*/libnss_wrapper.so' /usr/bin/python3 -c 'import pwd; print(pwd.getpwuid(4242))'
""", needs=("/usr/lib/*/libnss_wrapper.so",), packages=("libnss-wrapper",)),
    program("preloads", "stdbuf", "stdbuf", r"""
stdbuf -oL sh -c 'seq 3; echo error >&2' 2>&1; stdbuf -o0 -i0 cut -d, -f1 <<END
a,b
END
stdbuf -oL djpeg -gray $PICTURES/s_baseline.jpg | sha256sum
""", needs=("stdbuf", "djpeg"), core=True),
    program("preloads", "proxychains", "proxychains", r"""
printf 'strict_chain\n[ProxyList]\nsocks5 127.0.0.1 9\n' >conf; proxychains4 -q -f conf sh -c 'echo through; exit 3' || echo "$?"
proxychains4 -q -f conf /usr/bin/python3 -c 'import socket
try: socket.create_connection(("192.0.2.1", 80), 5)
except OSError as error: print("refused", type(error).__name__)'
""", needs=("proxychains4",), packages=("proxychains4",)),
    program("preloads", "asan", "AddressSanitizer: clang's, gcc's static", SANITIZED + r"""
for how in 'gcc -static-libasan' clang; do $how -g -fsanitize=address -o a a.c; ./a 2>&1; ./a 1 2>&1 | grep -e ERROR -e SUMMARY | sed 's/==[0-9]*==//; s/0x[0-9a-f]*/ADDRESS/g; s/ADDRESS.*//'; rm a; done
gcc -g -fsanitize=thread -static-libtsan -o a a.c && { ./a || echo "$?"; }; gcc -fsanitize=undefined -o a a.c; ./a; rm a
""", needs=("gcc", "clang"), packages=("clang",)),
    program("preloads", "asan_shared", "AddressSanitizer: gcc's shared one, told not to look who comes first; the others", SANITIZED + r"""
export ASAN_OPTIONS=verify_asan_link_order=0
gcc -g -fsanitize=address -o a a.c; ./a 2>&1; ./a 1 2>&1 | grep -e ERROR -e SUMMARY | sed 's/==[0-9]*==//; s/0x[0-9a-f]*.*//'; rm a
for s in thread leak undefined; do gcc -g -fsanitize=$s -o a a.c; ./a; rm a; done
""", needs=("gcc",)),
]
