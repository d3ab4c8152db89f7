#!/bin/sh
# SPDX-License-Identifier: MIT
. "$SCRIPTS/with.sh"

echo 'somebody:x:4242:4242:::/bin/sh' >passwd
echo 'some:x:4242:' >group
export NSS_WRAPPER_PASSWD="$PWD"/passwd NSS_WRAPPER_GROUP="$PWD"/group
with '/usr/lib/*/libnss_wrapper.so' id somebody
with '/usr/lib/*/libnss_wrapper.so' /usr/bin/python3 -c 'import pwd; print(pwd.getpwuid(4242))'
