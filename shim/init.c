/* SPDX-License-Identifier: MIT */
/* What runs because of LD_PRELOAD, before and after the program's own code. */
#include "leader/session.h"
#include "shim/config.h"
#include "shim/identity.h"

/*
 * Runs in every process of the job, shells and compilers included: read the settings, map
 * one page, register one fork handler.  All else waits for the first call that is ours.
 */
__attribute__((constructor)) static void begin(void)
{
	if (ts_config()->disable)
		return;
	ts_identity_init();
}

__attribute__((destructor)) static void end(void)
{
	if (!ts_config()->disable)
		ts_session_finish();
}
