/* SPDX-License-Identifier: MIT */
/* What stands in for the calls of TS_FILE_CHANGES until the next definitions are found. */
#ifndef TS_HOOKS_FILE_NEXT_PRIVATE_H
#define TS_HOOKS_FILE_NEXT_PRIVATE_H

#include "hooks/file/next.h"

#define ts_first_remove     ts_first_unlink
#define ts_first_truncate64 ts_first_truncate
#define ts_first_utime      ts_first_utimes
#define ts_first_lutimes    ts_first_utimes

/** Each is the bare system call, and reports through errno as the call itself does. */
#define TS_X(symbol, name, kind) ts_##kind##_call ts_first_##name;
TS_FILE_CHANGES(TS_X)
#undef TS_X

#endif
