# SPDX-License-Identifier: MIT
"""Shells, what they start most, and tools that look into other processes."""
from table import program

# What a process is given besides its program: of each, what it says itself.
FACTS = r"""
env | grep -v -e '^LD_PRELOAD=' -e '^TSSHIM_' -e '^_=' | sort
ls -l /proc/self/fd | sed 's/.* \([0-9]* -> \)/\1/; s/:\[[0-9]*\]//; s,/proc/[0-9]*,/proc/PID,; /^total/d'
cat /proc/self/limits /proc/self/coredump_filter
grep -e '^Sig[BIC]' -e '^ShdPnd' -e '^Threads' -e '^VmLck' -e '^VmPin' -e '^CoreDumping' -e '^NoNewPrivs' \
	-e '^Seccomp' -e '^Cap' -e '^Cpus_allowed' -e '^Umask' -e '^TracerPid' /proc/self/status
ls /proc/self/task | wc -l
umask
cat /proc/self/oom_score_adj /proc/self/timerslack_ns /proc/self/comm
sed 's/.* //' /proc/self/maps | grep -v -e tsshim -e '^0$' | sort -u
tr '\0' ' ' </proc/self/cmdline
ldd /bin/ls | sed 's/ (0x.*//' | grep -v tsshim
"""

GIT = r"""
export HOME=$PWD GIT_AUTHOR_DATE='2001-01-01 00:00 +0000' GIT_COMMITTER_DATE='2001-01-01 00:00 +0000'
export GIT_CONFIG_NOSYSTEM=1
git config --global user.name n; git config --global user.email n@example.org
git init -q -b main one
for i in $(seq 30); do seq "$i" 200 >one/"$i"; done
git -C one add .; git -C one commit -q -m first; git -C one mv 1 renamed; git -C one commit -q -m second
git clone -q --no-local one two 2>&1
git -C two gc -q --aggressive --prune=now
git -C two fsck --full 2>&1 | sort
git -C two log --stat | tail -5
git -C two rev-parse HEAD
rm -rf one two .gitconfig
"""

PROGRAM = r"""
cat >p.c <<'END'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int sum(const int *v, int n) { int s = 0; for (int i = 0; i < n; i++) s += v[i]; return s; }
int main(int argc, char **argv)
{
	int *v = malloc(8 * sizeof(*v));
	memset(v, 1, 7 * sizeof(*v));
	FILE *f = fopen("p.c", "r");
	int c = fgetc(f);
	fclose(f);
	printf("%d %c %d\n", argc, c, sum(v, argc > 1 ? 9 : 7));
	return 3;
}
END
cc -g -O0 -o p p.c
"""

SHELLS = [
    program("shells", "facts", "what a process is given: environment, descriptors, limits, signals, "
            "umask, threads, memory, names in its map, `ldd`", FACTS, needs=("sh",), core=True,
            tsrun=True),
    program("shells", "bash", "bash", r"""
exec bash --norc -c 'set -o pipefail
mapfile -t a < <(seq 5); printf "%s," "${a[@]}"; echo
trap "echo caught" USR1; kill -USR1 $$
(exit 7) | cat; echo "${PIPESTATUS[*]} $?"
coproc cat; echo hi >&${COPROC[1]}; read -r x <&${COPROC[0]}; echo "$x ${COPROC[*]}"
exec {fd}>file; echo "$fd"; echo text >&$fd; cat file
ulimit -a; umask; shopt; trap; [[ abc =~ b(.) ]]; echo "${BASH_REMATCH[1]}"; exit 5'
""", status=5, core=True, tsrun=True),
    program("shells", "dash", "dash", r"""
cat <<END | dash
trap 'echo end' EXIT
x=\$(seq 1000 | sort -rn | head -3); echo "\$x"
for i in 1 2 3; do (sleep 0; exit \$i) & p=\$!; wait \$p || echo "status \$?"; done
trap; kill -TERM \$\$
END
""", status=143, core=True),
    program("shells", "zsh", "zsh", r"""
zsh -f -c 'mkdir -p a/b; touch a/x.c a/b/y.c; print -l a/**/*.c(.N); typeset -A h; h[k]=v; print ${(k)h}
zmodload zsh/zpty zsh/system zsh/stat; zpty p cat; zpty -w p hello; zpty -r p l "*hello*"; print ${#l}; zpty -d p
cat =(<<<text); cat <(seq 3); (exit 9); print $?; limit; return 4'
""", status=4, packages=("zsh",)),
    program("shells", "busybox", "busybox (static)", r"""
busybox sh -c 'busybox seq 100 >f; busybox tar cf t f; busybox tar tf t; busybox md5sum f; busybox awk "{s+=\$1} END {print s}" f
busybox sed -n 5p f; busybox find . | busybox sort; exit 6'
""", status=6, needs=("busybox",), core=True, tsrun=True),
    program("shells", "coreutils", "coreutils, sed, awk, grep, diff, sort with threads", r"""
seq 20000 | sort -R --random-source=/bin/sh --parallel=4 | sort -n --parallel=4 | sha256sum
seq 9 | split -l 2 - part.; cat part.* | tac | paste -sd, ; cp -a part.aa copy; cmp part.aa copy; ln -s copy link
install -m 640 copy installed; stat -c '%a %s %n' installed; du -b --apparent-size part.ab; truncate -s 1M sparse
dd if=sparse of=out bs=64k count=3 2>/dev/null; mv out moved; shred -n1 -u moved; timeout 20 nice -n 1 env -i sh -c 'echo $PATH | wc -w'
awk 'BEGIN { "date +%Y" | getline y; print (y > 2000); system("exit 3") }'; grep -rn 9 part.* | sort; diff part.aa part.ab || echo "$?"
mkfifo p; cat p >from & echo through >p; wait; cat from; comm -12 part.aa copy; od -c part.aa | head -2; date -d @0 -u; tee t2 <copy | wc
ls --full-time -d --time-style=+ copy | cut -d' ' -f1; nproc; df --output=target . | wc -l; readlink -f link | sed 's,.*/,,'; rm p
""", needs=("sort",), core=True, tsrun=True),
    program("shells", "make", "make -j", r"""
printf 'all: $(addprefix o/,$(shell seq 60))\no/%%: | o\n\t@echo made $* >$@; echo $@\no:\n\t@mkdir o\nbad:\n\t@exit 3\n' >Makefile
make -j8 --output-sync=target | sort; cat o/* | sort | sha256sum; make bad 2>&1 || echo "status $?"
""", core=True, tsrun=True),
    program("shells", "xargs", "xargs -P", r"""
seq 200 | xargs -P8 -n3 sh -c 'echo $#' | sort | uniq -c; seq 5 | xargs -P2 -I{} sh -c 'exit {}' || echo "status $?"
""", core=True),
    program("shells", "find", "find, with -exec", r"""
mkdir -p d/1/2 d/3; touch -d @86400 d/1/a d/1/2/b d/3/c; ln -s ../1 d/3/l
find d -printf '%y %p %l %m\n' | sort; find d -type f -exec sh -c 'echo "$@" | wc -w' sh {} +; find -L d -samefile d/1/a | sort
find d -newermt 1990-01-01 -type f -delete; find d -type f -delete -print | sort; find missing || echo "$?"
""", core=True),
    program("shells", "tar", "tar with zstd, gzip and xz", r"""
mkdir d; for i in $(seq 20); do seq "$i" 5000 >d/"$i"; done; touch -d @0 d d/*
for z in zstd gzip xz; do
	tar --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -I "$z" -cf "$z.tar" d; mkdir "$z"; tar -C "$z" -I "$z" -xf "$z.tar"
	diff -r d "$z/d"; sha256sum <"$z.tar"
done
zstd -q -T2 -19 -c zstd.tar | zstd -dc | cmp - zstd.tar; rm -r d zstd gzip xz
""", needs=("tar", "zstd", "gzip", "xz"), packages=("zstd", "xz-utils")),
    program("shells", "git", "git init, commit, clone, gc, fsck", GIT, core=True),
    program("shells", "rsync", "rsync", r"""
mkdir -p a/b; seq 1000 >a/x; seq 9 >a/b/y; touch -d @0 a a/b a/x a/b/y; ln a/x a/hard
rsync -aiH a/ c/; rsync -aiHc a/ c/; seq 7 >a/b/y; touch -d @9 a/b/y a/b; rsync -ai --delete --inplace a/ c/; diff -r a c
rsync -a missing/ c/ 2>&1 | sed 's/at main.c.*//' || :
""", core=True),
    program("shells", "ssh", "ssh-keygen, ssh -V, ssh-agent", r"""
ssh -V 2>&1; ssh -G -F /dev/null example.org | grep -e ^port -e ^user; ssh-keygen -q -t ed25519 -N '' -C c -f key; ssh-keygen -l -f key.pub | sed 's/SHA256:[^ ]*//'
echo text >m; ssh-keygen -q -Y sign -n file -f key m; printf 'me %s\n' "$(cat key.pub)" >allowed
ssh-keygen -Y verify -f allowed -I me -n file -s m.sig <m | sed 's/SHA256:.*//'
ssh-agent sh -c 'ssh-add -q key && ssh-add -l | wc -l' 2>&1; rm key key.pub m.sig allowed
""", needs=("ssh", "ssh-keygen", "ssh-agent"), packages=("openssh-client",)),
    program("shells", "sudo", "sudo and su (setuid) as another user", r"""
[ "$(id -u)" = 0 ] || { echo 'needs root' >&2; exit 1; }
sudo -n -u nobody id -un; su nobody -s /bin/sh -c 'id -un; umask; exit 3' || echo "status $?"
setpriv --reuid=65534 --regid=65534 --clear-groups sh -c 'id -un; passwd -S | cut -d" " -f1,2; sudo -n true 2>&1; echo "$?"; newgrp nogroup </dev/null; echo "$?"'
""", needs=("sudo", "su", "setpriv"), packages=("sudo",), may=("needs root",)),
]

LOOKERS = [
    program("shells", "gdb", "gdb, with its own Python", PROGRAM + r"""
gdb -nx -batch -ex 'set disable-randomization on' -ex 'break sum' -ex run -ex bt -ex finish -ex 'info inferiors' -ex 'python print(1 + 1)' -ex continue ./p 2>&1 |
	sed 's/0x[0-9a-f]*/ADDRESS/g; s/process [0-9]*/process/g; s/\(Inferior 1 (process\)[^)]*/\1/'
""", packages=("gdb",)),
    program("shells", "strace", "strace -f", PROGRAM + r"""
strace -f -qq -e trace=write,exit_group,execve -e signal=none -o log sh -c './p; ./p 1 2; true' || :
sed 's/^[0-9]* *//; s/0x[0-9a-f]* .* vars/ENV/' log; rm log
""", core=True),
    program("shells", "ltrace", "ltrace", PROGRAM + r"""
ltrace -o log ./p >/dev/null || echo "$?"; sed 's/0x[0-9a-f]*/ADDRESS/g; /SIG/d' log; rm log
""", packages=("ltrace",)),
    program("shells", "valgrind", "valgrind: memcheck, helgrind", PROGRAM + r"""
valgrind --log-file=log --leak-check=full --show-leak-kinds=definite,possible ./p 1 2 || echo "$?"
grep -e 'ERROR SUMMARY' -e 'definitely' -e 'Invalid read' -e 'uninit' -e 'sum (' log | sed 's/==[0-9]*==//; s/0x[0-9A-F]*/ADDRESS/g'
valgrind -q --tool=helgrind --error-exitcode=9 ./p || echo "$?"; rm log
""", packages=("valgrind",)),
    program("shells", "perf", "perf stat", r"""
perf stat -x, -e task-clock -o log true && cut -d, -f3 log | tail -1; rm log
""", packages=("linux-perf",), may=("not supported", "permission", "not permitted", "perf not found")),
    program("shells", "script", "script, a terminal of its own", r"""
script -qec 'tty >/dev/null && stty size && echo "$TERM" && exit 4' /dev/null </dev/null || echo "$?"
""", core=True),
]

ROWS = SHELLS + LOOKERS
