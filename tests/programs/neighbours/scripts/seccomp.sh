#!/bin/sh
# SPDX-License-Identifier: MIT
setpriv --no-new-privs --bounding-set=-all --inh-caps=-all \
	sh -c 'grep -e NoNewPrivs -e CapEff /proc/self/status
	djpeg "$PICTURES"/s_baseline.jpg | sha256sum'
prlimit --nofile=8:8 --core=0 sh -c 'ulimit -n
	ls /proc/self/fd | wc -l
	djpeg "$PICTURES"/s_baseline.jpg | sha256sum'
prlimit --as=400000000 --fsize=0 sh -c 'seq 9; djpeg "$PICTURES"/s_baseline.jpg | sha256sum'
prlimit --nproc=0 djpeg "$PICTURES"/s_baseline.jpg | sha256sum
taskset -c 0 nproc
setsid -w sh -c 'exit 2' || echo "$?"
chrt -b 0 echo batch
flock f sh -c 'echo locked; flock -n f echo twice || echo "$?"'
ionice -c3 true
nohup true 2>&1
env - djpeg -gray "$PICTURES"/s_baseline.jpg | sha256sum
timeout -s KILL 0.01 sleep 9 || echo "$?"
prlimit --stack=262144 djpeg "$PICTURES"/s_baseline.jpg | sha256sum
prlimit --as=100000000 djpeg "$PICTURES"/s_baseline.jpg | sha256sum
rm f
djpeg "$PICTURES"/s_baseline.jpg <&- 2>&- | sha256sum
djpeg -outfile o "$PICTURES"/s_baseline.jpg >&- 2>&- <&-
sha256sum o
cat /bin/sh >/dev/full || echo "$?"
