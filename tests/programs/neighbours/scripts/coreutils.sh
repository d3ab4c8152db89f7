#!/bin/sh
# SPDX-License-Identifier: MIT
seq 20000 | sort -R --random-source=/bin/sh --parallel=4 | sort -n --parallel=4 | sha256sum
seq 9 | split -l 2 - part.
cat part.* | tac | paste -sd,
cp -a part.aa copy
cmp part.aa copy
ln -s copy link
install -m 640 copy installed
stat -c '%a %s %n' installed
du -b --apparent-size part.ab
truncate -s 1M sparse
dd if=sparse of=out bs=64k count=3 2>/dev/null
mv out moved
shred -n1 -u moved
timeout 20 nice -n 1 env -i sh -c 'echo $PATH | wc -w'
awk 'BEGIN { "date +%Y" | getline y; print (y > 2000); system("exit 3") }'
grep -rn 9 part.* | sort
diff part.aa part.ab || echo "$?"
mkfifo p
cat p >from &
echo through >p
wait
cat from
comm -12 part.aa copy
od -c part.aa | head -2
date -d @0 -u
tee t2 <copy | wc
ls --full-time -d --time-style=+ copy | cut -d' ' -f1
nproc
df --output=target . | wc -l
readlink -f link | sed 's,.*/,,'
rm p
