/* SPDX-License-Identifier: MIT */
/* What the fuzz targets share. */
#ifndef TS_TESTS_FUZZ_H
#define TS_TESTS_FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "shim/sys.h"

/* assert() may be compiled out; a fuzz target without its checks proves nothing. */
#define FUZZ_CHECK(condition)                                                           \
	do {                                                                            \
		if (!(condition)) {                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			abort();                                                        \
		}                                                                       \
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/** Put the shared memory of the test build into a folder of this process's own. */
void fuzz_private_shm(void);

#endif
