#!/bin/sh
# SPDX-License-Identifier: MIT
mkdir -p d/DEBIAN
printf '%s\n' 'Package: p' 'Version: 1' 'Architecture: all' 'Maintainer: m <m@example.org>' \
	'Description: d' >d/DEBIAN/control
touch -d @0 d d/DEBIAN d/DEBIAN/control
dpkg-deb --root-owner-group -b d p.deb
dpkg-deb -c p.deb | cut -c1-20
dpkg-deb -I p.deb | tail -3
dpkg -l bash | tail -1
dpkg -S /bin/sh 2>&1 | tail -1
apt-cache policy bash | head -1
rm -rf d p.deb
