#!/bin/sh
# SPDX-License-Identifier: MIT
sqlite3 db <<'END'
pragma journal_mode=wal;
create table t (a integer primary key, b);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 5000)
insert into t select i, hex(i) from n;
create index x on t (b);
select count(*), sum(a) from t;
END
for i in 1 2 3 4; do
	sqlite3 -cmd '.timeout 60000' db "update t set b = b || 'x' where a = $i" &
done
wait
sqlite3 db "select b from t where a < 6; pragma integrity_check; vacuum" .dump | sha256sum
sqlite3 db 'select * from nowhere' 2>&1 || echo "$?"
rm -f db*
