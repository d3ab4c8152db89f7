/* SPDX-License-Identifier: MIT */
/* What happens because the library is loaded, in every process, also in those without a decode. */
#include "leader/session.h"
#include "shim/config.h"
#include "shim/identity.h"

#include <pthread.h>

/*
 * Runs in each child process of the trainer too (shells, compilers), so it reads a few
 * environment strings, maps one page and opens nothing.  Complaints about settings wait
 * for the first use (leader/session.c), when it is known that this process decodes at all.
 */
__attribute__((constructor)) static void load(void)
{
	if (ts_config()->disable)
		return;
	ts_identity_init();
	/* Here and not later: registering while another thread forks can hang the child. */
	pthread_atfork(NULL, NULL, ts_identity_note_fork);
}

__attribute__((destructor)) static void unload(void)
{
	if (!ts_config()->disable)
		ts_session_finish();
}
