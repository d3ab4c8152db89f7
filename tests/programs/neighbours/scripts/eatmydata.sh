#!/bin/sh
# SPDX-License-Identifier: MIT
eatmydata dd if=/bin/sh of=f bs=4k count=9 conv=fsync status=none
cmp -n 36864 f /bin/sh
eatmydata sh -c 'sync; echo $?'
eatmydata sqlite3 db 'create table t (a); insert into t values (1), (2); select sum(a) from t'
rm f db
