/* SPDX-License-Identifier: MIT */
/* All that is exported, made from the table; what the functions do is elsewhere as do_SYMBOL.
 */
#include "driver.h"

static CUstream legacy(CUstream stream)
{
	return stream ? stream : CU_STREAM_LEGACY;
}

static CUstream per_thread(CUstream stream)
{
	return stream ? stream : CU_STREAM_PER_THREAD;
}

#define DEFINE(name, symbol, arguments, ...)                \
	FAKE_EXPORT CUresult name(__VA_ARGS__);             \
	FAKE_EXPORT CUresult name(__VA_ARGS__)              \
	{                                                   \
		CUresult result;                            \
		if (!fake_enter(FAKE_CALL_##name, &result)) \
			return result;                      \
		result = do_##symbol arguments;             \
		fake_leave(FAKE_CALL_##name);               \
		return result;                              \
	}

#define X(symbol, base, since, arguments, ...) DEFINE(symbol, symbol, arguments, __VA_ARGS__)
#define S(stream)                              legacy(stream)
FAKE_PLAIN(X)
FAKE_PTDS(X)
FAKE_PTSZ(X)
#undef X
#undef S

#define S(stream) per_thread(stream)
#define X(symbol, base, since, arguments, ...) \
	DEFINE(symbol##_ptds, symbol, arguments, __VA_ARGS__)
FAKE_PTDS(X)
#undef X
#define X(symbol, base, since, arguments, ...) \
	DEFINE(symbol##_ptsz, symbol, arguments, __VA_ARGS__)
FAKE_PTSZ(X)
#undef X
