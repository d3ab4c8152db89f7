/* SPDX-License-Identifier: MIT */
/* The running hash is the hash of the whole, and stays what it is: it is in shared memory. */
#include "fixture.h"

#include "shim/hash.h"

#include <string.h>

TestSuite(hash);

/* Seed 0 and the default secret; records of an older build must be found under the same key. */
Test(hash, is_xxh3)
{
	struct ts_hash128 hash = ts_hash128("abc", 3);

	cr_expect(eq(u64, ts_hash64("abc", 3), UINT64_C(0x78af5f94892f3950)));
	cr_expect(eq(u64, hash.hi, UINT64_C(0x06b05ab6733a6185)));
	cr_expect(eq(u64, hash.lo, UINT64_C(0x78af5f94892f3950)));
}

Test(hash, pieces_make_no_difference)
{
	static unsigned char data[10000];
	static const size_t steps[] = {1, 7, 64, 255, 256, 257, 1024, 9999, 10000};

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (unsigned char)(i * 31 + i / 256);
	struct ts_hash128 whole = ts_hash128(data, sizeof(data));
	for (size_t s = 0; s < TS_ARRAY_SIZE(steps); s++) {
		struct ts_hasher hasher;
		ts_hasher_init(&hasher);
		for (size_t at = 0; at < sizeof(data); at += steps[s]) {
			size_t left = sizeof(data) - at;
			ts_hasher_add(&hasher, data + at, left < steps[s] ? left : steps[s]);
			/* Looking does not disturb. */
			(void)ts_hasher_digest(&hasher);
		}
		struct ts_hash128 hash = ts_hasher_digest(&hasher);
		cr_expect(eq(u64, hash.lo, whole.lo), "step %zu", steps[s]);
		cr_expect(eq(u64, hash.hi, whole.hi), "step %zu", steps[s]);
	}
}

Test(hash, every_byte_counts)
{
	unsigned char data[300] = {0};
	uint64_t before = ts_hash64(data, sizeof(data));

	for (size_t i = 0; i < sizeof(data); i++) {
		data[i] = 1;
		cr_expect(ne(u64, ts_hash64(data, sizeof(data)), before), "byte %zu", i);
		data[i] = 0;
	}
}
