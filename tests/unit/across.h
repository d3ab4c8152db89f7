/* SPDX-License-Identifier: MIT */
/* An aligned job of a cluster, and the helper for other nodes that the test itself is. */
#ifndef TS_TESTS_UNIT_ACROSS_H
#define TS_TESTS_UNIT_ACROSS_H

#include "leader/mail/mail.h"
#include "shim/atomic.h"
#include "shim/identity.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

/** Settings of such a job: before the library reads them. */
static inline void across_set(void)
{
	setenv("TSSHIM_ALIGN", "7", 1);
	setenv("TSSHIM_CLUSTER", "/nowhere", 1);
	setenv("TSSHIM_ACROSS", "nodes", 1);
}

/** The table of @store's group in @mail, which this process serves. */
static inline void across_serve(struct ts_store *store, struct ts_mail *mail)
{
	cr_assert(eq(int, ts_mail_attach(store, mail), 0));
	ts_write_release(&mail->table->helper, ts_process_id(getpid(), false));
}

/** Its places, to be written to; the caller's to close. */
static inline int across_open_places(struct ts_store *store, struct ts_mail *mail)
{
	cr_assert(eq(int, ts_mail_attach_places(store, mail), 0));
	int places = open(mail->places_path, O_WRONLY | O_CLOEXEC);
	cr_assert(ge(int, places, 0));
	return places;
}

/** Nothing is posted there, and every slot is free. */
static inline void across_expect_idle(struct ts_mail *mail)
{
	struct ts_mail_request request;
	uint32_t index;

	cr_expect(eq(int, ts_mail_take(mail, 0, &index, &request), -ENOENT));
	for (index = 0; index < TS_MAIL_SLOTS; index++)
		cr_expect(eq(u64, ts_load_relaxed(&mail->table->slots[index].owner), 0));
}

#endif
