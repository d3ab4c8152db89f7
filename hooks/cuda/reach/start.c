/* SPDX-License-Identifier: MIT */
/* Where copies to a GPU begin to be looked at. */
#include "hooks/cuda/reach/start.h"

#include "hooks/cuda/gpu/gpu.h"
#include "hooks/cuda/gpu/pinned.h"
#include "hooks/cuda/gpu/service.h"
#include "hooks/cuda/reach/dlsym.h"
#include "hooks/cuda/reach/next.h"
#include "shim/config.h"

void ts_cuda_begin(void)
{
	const struct ts_config *config = ts_config();
	if (config->copies == TS_COPIES_OFF || config->share == TS_SHARE_OFF ||
		config->ring_bytes == 0)
		return;
	ts_service_begin();
	ts_pinned_begin();
	ts_cuda_next_begin();
	ts_dlsym_begin();
}

void ts_cuda_end(void)
{
	ts_gpu_finish();
}
