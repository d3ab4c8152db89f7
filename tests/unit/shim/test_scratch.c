/* SPDX-License-Identifier: MIT */
/* Blocks in the place of large frames. */
#include "fixture.h"

#include "shim/scratch.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

TestSuite(scratch);

/* More than there are without asking the kernel. */
#define MANY 100

Test(scratch, blocks_lie_apart_however_many)
{
	unsigned char *all[MANY];
	errno = 7;
	for (int i = 0; i < MANY; i++) {
		all[i] = ts_scratch();
		cr_assert_not_null(all[i]);
		cr_expect(eq(int, (int)((uintptr_t)all[i] % 64), 0));
		memset(all[i], i, TS_SCRATCH_BYTES);
	}
	for (int i = 0; i < MANY; i++) {
		cr_expect(eq(int, all[i][0], i));
		cr_expect(eq(int, all[i][TS_SCRATCH_BYTES - 1], i));
		ts_scratch_return(&all[i]);
	}
	cr_expect(eq(int, errno, 7));
}

static void *taken(void)
{
	void *block TS_SCRATCH = ts_scratch();
	return block;
}

Test(scratch, a_block_comes_back_at_the_end_of_its_scope)
{
	void *first = taken(), *none TS_SCRATCH = NULL;
	cr_expect_eq(taken(), first);
	cr_expect_null(none);
}
