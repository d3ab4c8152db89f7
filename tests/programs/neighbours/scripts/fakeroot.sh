#!/bin/sh
# SPDX-License-Identifier: MIT
fakeroot sh -c 'touch f
chown 12:34 f
chmod 4755 f
mknod n c 1 3
stat -c "%u %g %a %F" f n
tar -cf - f n | tar -tvf - | cut -c1-22
rm n
id -u
mkdir d
cp -a f d/g
/usr/bin/python3 - <<END
import os
found = os.stat("d/g")
print(found.st_uid, found.st_gid, oct(found.st_mode))
os.chown("d/g", 5, 6)
with open("d/g") as file:
    print(os.fstat(file.fileno()).st_uid)
END
ls -ln d | cut -c1-20'
rm -rf f d
