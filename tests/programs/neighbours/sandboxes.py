# SPDX-License-Identifier: MIT
"""Containers, sandboxes, terminals, and what starts programs elsewhere."""
from table import program

MPI = r"""
cat >h.c <<'END'
#include <mpi.h>
#include <stdio.h>
int main(int c, char **v) { int r, n, s; MPI_Init(&c, &v); MPI_Comm_rank(MPI_COMM_WORLD, &r); MPI_Comm_size(MPI_COMM_WORLD, &n); MPI_Allreduce(&r, &s, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD); printf("%d of %d: %d\n", r, n, s); MPI_Finalize(); return 0; }
END
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl_vader_single_copy_mechanism=none HOME=$PWD
mpicc -o h h.c; mpirun --oversubscribe -n 3 ./h 2>&1 | sort; mpirun --oversubscribe -n 2 sh -c 'exit 3' >/dev/null 2>&1 || echo "$?"; rm -rf h .openmpi
"""

REFUSED = ("ermitted", "ermission", "not supported", "not implemented")

ROWS = [
    program("sandboxes", "unshare", "unshare and nsenter", r"""
unshare -Ufrm --mount-proc -p --kill-child sh -c 'id -u; echo $$; set -- /proc/[0-9]*; echo $#; mount -t tmpfs t /mnt; touch /mnt/f; ls /mnt; sh -c "exit 4"; echo $?; djpeg $PICTURES/s_baseline.jpg | sha256sum'
unshare -Ur sleep 100 & p=$!; until [ "$(readlink /proc/$p/ns/user)" != "$(readlink /proc/self/ns/user)" ]; do kill -0 $p; done
nsenter -t $p -U --preserve-credentials id -u; kill $p; { wait $p; } 2>/dev/null || echo "$?"
""", needs=("unshare", "nsenter", "djpeg"), core=True, may=REFUSED),
    program("sandboxes", "chroot", "chroot, into a static world and a dynamic one", r"""
mkdir r; cp /bin/busybox r; chroot r /busybox sh -c '/busybox ls /; exit 3' || echo "$?"; chroot / sh -c 'echo inside; pwd'; rm -r r
""", needs=("chroot", "busybox"), core=True, may=REFUSED),
    program("sandboxes", "bubblewrap", "bubblewrap", r"""
bwrap --ro-bind / / --dev /dev --proc /proc --unshare-all --die-with-parent --tmpfs /mnt sh -c 'echo $$; set -- /proc/[0-9]*; echo $#; touch /bin/x; echo $?; exit 3' 2>&1 || echo "$?"
bwrap --bind / / --tmpfs /dev/shm --proc /proc sh -c 'djpeg $PICTURES/s_baseline.jpg | sha256sum; ls -A /dev/shm | grep -v ledger || :'
bwrap --ro-bind / / --unshare-user --cap-drop ALL --new-session /usr/bin/python3 -c 'import os; print(os.getpid() > 1, os.path.exists("/proc/self"))'
""", needs=("bwrap", "djpeg"), packages=("bubblewrap",), may=REFUSED),
    program("sandboxes", "firejail", "firejail", r"""
firejail --quiet --noprofile --net=none sh -c 'echo inside; set -- /proc/[0-9]*; test $# -lt 9; echo $?; exit 3' || echo "$?"
firejail --quiet --noprofile --seccomp --caps.drop=all /usr/bin/python3 -c 'print(sum(range(10)))' || echo "$?"
""", packages=("firejail",), may=REFUSED),
    program("sandboxes", "seccomp", "setpriv: no new privileges, capabilities; prlimit; taskset; setsid; chrt; flock", r"""
setpriv --no-new-privs --bounding-set=-all --inh-caps=-all sh -c 'grep -e NoNewPrivs -e CapEff /proc/self/status; djpeg $PICTURES/s_baseline.jpg | sha256sum'
prlimit --nofile=8:8 --core=0 sh -c 'ulimit -n; ls /proc/self/fd | wc -l; djpeg $PICTURES/s_baseline.jpg | sha256sum'; prlimit --as=400000000 --fsize=0 sh -c 'seq 9; djpeg $PICTURES/s_baseline.jpg | sha256sum'
prlimit --nproc=0 djpeg $PICTURES/s_baseline.jpg | sha256sum; taskset -c 0 nproc; setsid -w sh -c 'exit 2' || echo "$?"; chrt -b 0 echo batch; flock f sh -c 'echo locked; flock -n f echo twice || echo "$?"'; ionice -c3 true; nohup true 2>&1
env - djpeg -gray $PICTURES/s_baseline.jpg | sha256sum; timeout -s KILL 0.01 sleep 9 || echo "$?"; (ulimit -s 256; djpeg $PICTURES/s_baseline.jpg | sha256sum); (ulimit -v 100000; djpeg $PICTURES/s_baseline.jpg | sha256sum); rm f
djpeg $PICTURES/s_baseline.jpg <&- 2>&- | sha256sum; djpeg -outfile o $PICTURES/s_baseline.jpg >&- 2>&- <&-; sha256sum o; cat /bin/sh >/dev/full || echo "$?"
""", needs=("setpriv", "prlimit", "taskset", "djpeg"), core=True),
    program("sandboxes", "tmux", "tmux", r"""
export TMUX_TMPDIR=$PWD LC_ALL=C.UTF-8; unset TMUX
tmux -f /dev/null new-session -d -s s -x 80 -y 24 'echo in a pane; stty size; tmux wait-for -S one; tmux wait-for two; exit 3'; tmux wait-for one
tmux list-windows -F '#{window_panes} #{pane_width}'; tmux capture-pane -p -t s | head -2; tmux wait-for -S two; while tmux has-session -t s 2>/dev/null; do :; done; rm -rf tmux-*
""", packages=("tmux",)),
    program("sandboxes", "screen", "screen", r"""
export SCREENDIR=$PWD/s HOME=$PWD; mkdir -m 700 s
screen -c /dev/null -D -m -S x sh -c 'stty size >o; env | grep -c "^STY" >>o; exit 3' </dev/null || echo "$?"; cat o; rm -rf s
""", packages=("screen",)),
    program("sandboxes", "mpi", "Open MPI", MPI, needs=("mpicc", "mpirun"),
            packages=("openmpi-bin", "libopenmpi-dev")),
    program("sandboxes", "parallel", "GNU parallel", r"""
export HOME=$PWD; mkdir -p .parallel; touch .parallel/will-cite
seq 40 | parallel -j8 -k 'echo {} $(({} * {}))' | sha256sum; parallel -j4 -k --halt now,fail=1 'exit {}' ::: 0 0 3 || echo "$?"; parallel --pipe -N5 -k wc -l < /etc/passwd | head -1; rm -rf .parallel
""", packages=("parallel",)),
]
