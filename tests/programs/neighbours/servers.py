# SPDX-License-Identifier: MIT
"""Data bases and servers: started, asked and stopped."""
from table import program

REDIS = r"""
redis-server --port 0 --unixsocket $PWD/s --daemonize no --save '' --appendonly yes --dir $PWD --logfile log >/dev/null & p=$!
until [ -S s ] && redis-cli -s s ping >/dev/null 2>&1; do kill -0 $p; done
r() { redis-cli -s s "$@"; }
r set k v; r get k; r incrby n 5; for i in $(seq 20); do r rpush l "$i"; done | tail -1; r eval 'return redis.call("llen", "l")' 0; r bgrewriteaof >/dev/null
r save; r debug digest-value k >/dev/null; r config get io-threads; r dbsize; r shutdown nosave; wait $p || echo "status $?"; rm -rf log s dump.rdb appendonlydir
"""

POSTGRES = r"""
b=$(ls -d /usr/lib/postgresql/*/bin | tail -1)
run() { if [ "$(id -u)" = 0 ]; then setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; else "$@"; fi; }
chmod 777 .; export HOME=$PWD LC_ALL=C
run "$b/initdb" -D $PWD/d -N -A trust -U me --locale=C -E UTF8 >log 2>&1 || { echo "$?"; cat log; }
run "$b/pg_ctl" -D $PWD/d -s -w -o "-k $PWD -h '' -c shared_buffers=8MB -c max_parallel_workers=2" -l $PWD/l start
psql -h $PWD -U me -At postgres -c 'create table t as select generate_series(1, 20000) a' -c 'select sum(a), count(*) from t' -c 'show shared_buffers' -c 'explain (costs off) select * from t where a = 3' -c 'select 1 / 0' 2>&1 || echo "$?"
run "$b/pg_ctl" -D $PWD/d -s -w -m fast stop; rm -rf d l log
"""

ROWS = [
    program("servers", "sqlite", "SQLite", r"""
sqlite3 db 'pragma journal_mode=wal; create table t (a integer primary key, b); with recursive n(i) as (select 1 union all select i + 1 from n where i < 5000) insert into t select i, hex(i) from n; create index x on t (b); select count(*), sum(a) from t'
for i in 1 2 3 4; do sqlite3 -cmd '.timeout 60000' db "update t set b = b || 'x' where a = $i" & done; wait
sqlite3 db "select b from t where a < 6; pragma integrity_check; vacuum" .dump | sha256sum; sqlite3 db 'select * from nowhere' 2>&1 || echo "$?"; rm -f db*
""", needs=("sqlite3",), core=True),
    program("servers", "redis", "Redis, with a fork that rewrites its log", REDIS,
            needs=("redis-server", "redis-cli"), packages=("redis-server",)),
    program("servers", "memcached", "memcached", r"""
chmod 777 .; memcached -u nobody -s $PWD/s -a 777 -t 4 -m 16 & p=$!
until [ -S s ]; do kill -0 $p; done
/usr/bin/python3 -c 'import socket, sys
s = socket.socket(socket.AF_UNIX); s.connect("s"); f = s.makefile("rwb")
for n in range(200): f.write(b"set k%d 0 0 5\r\nvalue\r\n" % n)
f.flush(); print({f.readline() for _ in range(200)}); f.write(b"get k7\r\nstats settings\r\n"); f.flush()
for line in f:
    print(line) if not line.startswith(b"STAT") or b"threads" in line else None
    if line.startswith(b"END") and (seen := globals().get("seen", 0) + 1) == 2: break'
kill $p; wait $p || echo "status $?"; rm -f s
""", packages=("memcached",)),
    program("servers", "nginx", "nginx: its configuration, and pages from two workers", r"""
mkdir w t; seq 2000 >w/page; chmod 755 . w
cat >c <<END
pid $PWD/pid; error_log $PWD/log; worker_processes 2; daemon off; user $(id -un);
events { worker_connections 64; } http { access_log off; sendfile on; aio threads;
client_body_temp_path $PWD/t; proxy_temp_path $PWD/t; fastcgi_temp_path $PWD/t; uwsgi_temp_path $PWD/t; scgi_temp_path $PWD/t;
server { listen unix:$PWD/s; root $PWD/w; } }
END
nginx -t -q -e $PWD/log -c $PWD/c; nginx -e $PWD/log -c $PWD/c & p=$!
until [ -S s ] && [ -s pid ]; do kill -0 $p; done
/usr/bin/python3 -c 'import socket, hashlib
for n in range(40):
    s = socket.socket(socket.AF_UNIX); s.connect("s"); s.sendall(b"GET /page HTTP/1.0\r\n\r\n"); data = s.makefile("rb").read()
    if n % 10 == 0: print(data.split(b"\r\n")[0], hashlib.sha256(data.split(b"\r\n\r\n", 1)[1]).hexdigest())'
kill -QUIT $p; wait $p || echo "status $?"; rm -rf w t c log s pid
""", packages=("nginx-light",)),
    program("servers", "postgres", "PostgreSQL: initdb, parallel workers", POSTGRES,
            needs=("/usr/lib/postgresql/*/bin/initdb", "psql"), packages=("postgresql",), may=("could not access",)),
]
