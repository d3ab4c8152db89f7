/* SPDX-License-Identifier: MIT */
/* A trainer that is linked to libcuda.so.1. */
#include "trainer.h"

#define X(symbol, base, since, arguments, ...) extern CUresult symbol(__VA_ARGS__);
FAKE_PLAIN(X)
FAKE_PTDS(X)
FAKE_PTSZ(X)
#undef X
#define X(symbol, base, since, arguments, ...) extern CUresult symbol##_ptds(__VA_ARGS__);
FAKE_PTDS(X)
#undef X
#define X(symbol, base, since, arguments, ...) extern CUresult symbol##_ptsz(__VA_ARGS__);
FAKE_PTSZ(X)
#undef X

static const struct mini_driver legacy = {
#define X(symbol, ...) .symbol = symbol,
	FAKE_PLAIN(X) FAKE_PTDS(X) FAKE_PTSZ(X)
#undef X
};

static const struct mini_driver per_thread_streams = {
#define X(symbol, ...) .symbol = symbol,
	FAKE_PLAIN(X)
#undef X
#define X(symbol, ...) .symbol = symbol##_ptds,
		FAKE_PTDS(X)
#undef X
#define X(symbol, ...) .symbol = symbol##_ptsz,
			FAKE_PTSZ(X)
#undef X
};

const struct mini_driver *trainer_driver(bool per_thread)
{
	return per_thread ? &per_thread_streams : &legacy;
}
