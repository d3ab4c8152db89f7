#!/bin/sh
# SPDX-License-Identifier: MIT
chmod 777 .
memcached -u nobody -s "$PWD/s" -a 777 -t 4 -m 16 &
p=$!
until [ -S s ]; do kill -0 $p; done
/usr/bin/python3 "$SCRIPTS/memcached.py"
kill $p
wait $p || echo "status $?"
rm -f s
