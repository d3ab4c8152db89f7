/* SPDX-License-Identifier: MIT */
/* Looking whether a copy that was taken from a ring is what it should be. */
#include "hooks/cuda/copy/verify.h"

#include "hooks/cuda/library.h"
#include "leader/group/session.h"

#include <stdlib.h>
#include <string.h>

static bool read_back(const struct ts_copy *copy, void *into)
{
	ts_cu_result result = TS_CUDA_DRIVER_OF(copy->per_thread, cuMemcpyDtoHAsync_v2)(
		into, copy->to, copy->bytes, copy->stream);
	return ts_copy_synchronize(copy) == TS_CU_SUCCESS && result == TS_CU_SUCCESS;
}

bool ts_verify_copy(const struct ts_copy *copy, const struct ts_lease *lease)
{
	bool equal = true;
	void *arrived = malloc(copy->bytes);
	if (arrived && read_back(copy, arrived)) {
		equal = memcmp(arrived, (const void *)(uintptr_t)copy->from, copy->bytes) == 0;
		ts_session_count_verified(equal, lease);
	}
	free(arrived);
	return equal;
}
