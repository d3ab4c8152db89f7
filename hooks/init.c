/* SPDX-License-Identifier: MIT */
/* What runs because of LD_PRELOAD, before and after the program's own code. */
#include "hooks/cuda/reach.h"
#include "hooks/file/known.h"
#include "hooks/file/staged.h"
#include "hooks/torch/start.h"
#include "leader/events/events.h"
#include "leader/group/layout.h"
#include "leader/group/session.h"
#include "shim/config.h"
#include "shim/elf_lock.h"
#include "shim/identity.h"
#include "shim/mark.h"

/* For `tsrun doctor`. */
__attribute__((used, aligned(4), section(TS_MARK_SECTION))) static const struct ts_mark mark = {
	.owner_bytes = sizeof(mark.owner),
	.bytes = sizeof(mark.abi) + sizeof(mark.version),
	.type = TS_MARK_TYPE,
	.owner = TS_MARK_OWNER,
	.abi = TS_ABI,
	.version = TS_VERSION,
};

/*
 * Runs in every process of the job, shells and compilers included: read the settings, map
 * one page, register two fork handlers; in a Python interpreter, point at our start-up file.
 * All else waits for the first call that is ours.
 */
__attribute__((constructor)) static void begin(int argc, char **argv)
{
	if (ts_config()->disable)
		return;
	ts_identity_init();
	ts_elf_lock_init();
	ts_staged_begin();
	ts_known_begin();
	ts_events_begin();
	ts_cuda_begin();
	ts_torch_begin(argc, argv);
}

__attribute__((destructor)) static void end(void)
{
	if (ts_config()->disable)
		return;
	ts_torch_end();
	ts_cuda_end();
	ts_session_finish();
}
