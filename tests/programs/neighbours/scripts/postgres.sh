#!/bin/sh
# SPDX-License-Identifier: MIT
b=$(ls -d /usr/lib/postgresql/*/bin | tail -n 1)
run() {
	if [ "$(id -u)" = 0 ]; then
		setpriv --reuid=65534 --regid=65534 --clear-groups "$@"
	else
		"$@"
	fi
}
chmod 777 .
export HOME="$PWD" LC_ALL=C
run "$b/initdb" -D "$PWD/d" -N -A trust -U me --locale=C -E UTF8 >log 2>&1 || cat log
run "$b/pg_ctl" -D "$PWD/d" -s -w -l "$PWD/l" \
	-o "-k $PWD -h '' -c shared_buffers=8MB -c max_parallel_workers=2" start
psql -h "$PWD" -U me -At postgres -c 'create table t as select generate_series(1, 20000) a' \
	-c 'select sum(a), count(*) from t' -c 'show shared_buffers' \
	-c 'explain (costs off) select * from t where a = 3' -c 'select 1 / 0' 2>&1 || echo "$?"
run "$b/pg_ctl" -D "$PWD/d" -s -w -m fast stop
rm -rf d l log
