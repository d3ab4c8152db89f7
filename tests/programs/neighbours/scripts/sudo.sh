#!/bin/sh
# SPDX-License-Identifier: MIT
[ "$(id -u)" = 0 ] || {
	echo 'needs root' >&2
	exit 1
}
sudo -n -u nobody id -un
su nobody -s /bin/sh -c 'id -un; umask; exit 3' || echo "status $?"
setpriv --reuid=65534 --regid=65534 --clear-groups sh -c 'id -un
	passwd -S | cut -d" " -f1,2
	sudo -n true 2>&1
	echo "$?"
	newgrp nogroup </dev/null
	echo "$?"'
