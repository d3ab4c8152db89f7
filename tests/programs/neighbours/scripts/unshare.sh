#!/bin/sh
# SPDX-License-Identifier: MIT
unshare -Ufrm --mount-proc -p --kill-child sh -c 'id -u
	echo $$
	set -- /proc/[0-9]*
	echo $#
	mount -t tmpfs t /mnt
	touch /mnt/f
	ls /mnt
	sh -c "exit 4"
	echo $?
	djpeg "$PICTURES"/s_baseline.jpg | sha256sum'
unshare -Ur sleep 100 &
p=$!
until [ "$(readlink /proc/$p/ns/user)" != "$(readlink /proc/self/ns/user)" ]; do kill -0 $p; done
nsenter -t $p -U --preserve-credentials id -u
kill $p
{ wait $p; } 2>/dev/null || echo "$?"
