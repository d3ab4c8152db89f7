#!/bin/sh
# SPDX-License-Identifier: MIT
redis-server --port 0 --unixsocket "$PWD/s" --daemonize no --save '' \
	--appendonly yes --dir "$PWD" --logfile log >/dev/null &
p=$!
until [ -S s ] && redis-cli -s s ping >/dev/null 2>&1; do kill -0 $p; done
r() { redis-cli -s s "$@"; }
r set k v
r get k
r incrby n 5
for i in $(seq 20); do r rpush l "$i"; done | tail -1
r eval 'return redis.call("llen", "l")' 0
r bgrewriteaof >/dev/null
r save
r debug digest-value k >/dev/null
r config get io-threads
r dbsize
r shutdown nosave
wait $p || echo "status $?"
rm -rf log s dump.rdb appendonlydir
