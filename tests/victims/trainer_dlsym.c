/* SPDX-License-Identifier: MIT */
/* A trainer that looks up each function by its exported name, as XLA and CuPy do. */
#include "trainer.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

const struct mini_driver *trainer_driver(bool per_thread)
{
	static struct mini_driver driver;
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	if (!library) {
		fprintf(stderr, "trainer: %s\n", dlerror());
		exit(3);
	}
#define FIND(symbol, suffix) \
	*(void **)&driver.symbol = dlsym(library, per_thread ? #symbol suffix : #symbol);
#define X(symbol, ...) FIND(symbol, "")
	FAKE_PLAIN(X)
#undef X
#define X(symbol, ...) FIND(symbol, "_ptds")
	FAKE_PTDS(X)
#undef X
#define X(symbol, ...) FIND(symbol, "_ptsz")
	FAKE_PTSZ(X)
#undef X
	return &driver;
}
