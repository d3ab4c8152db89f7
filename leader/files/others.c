/* SPDX-License-Identifier: MIT */
/* Getting what is to be copied from another node, and handing over what no node has. */
#include "leader/files/bring.h"
#include "leader/files/stage_private.h"
#include "shim/config.h"
#include "shim/sys.h"

int ts_stage_use_others(struct ts_stage *stage, struct ts_store *store)
{
	return ts_mail_attach(store, &stage->mail);
}

/* A stager knows of no cluster itself, and leaves the starting to who opens files. */
static bool is_served(struct ts_stage *stage)
{
	return stage->mail.table && ts_mail_is_served(&stage->mail,
					    ts_config()->cluster ? ts_mail_start : NULL, NULL);
}

void ts_stage_call_helper(struct ts_stage *stage)
{
	(void)is_served(stage);
}

int ts_stage_ask_others(struct ts_stage *stage, const struct ts_stage_source *source,
	const struct ts_stage_range *range, struct ts_stage_errand *ret_errand)
{
	struct stat part;

	*ret_errand = (struct ts_stage_errand){.is_won = false};
	if (!is_served(stage) || ts_sys_fstat(range->part, &part) < 0)
		return 0;
	const struct ts_mail_request request = {
		.kind = TS_MAIL_FETCH,
		.piece = range->piece,
		.name = ts_stage_name_across(source),
		.copy = ts_stage_digits_of(source),
		.inode = part.st_ino,
		.at = range->at,
		.bytes = range->bytes,
		.until_ns = ts_now_ns() + ts_mail_wait_ns(),
	};
	int r = ts_mail_ask(&stage->mail, &request, &ret_errand->index);
	if (r == -ETIME)
		return r;
	ret_errand->is_won = r == TS_MAIL_SAYS_WON;
	return r == TS_MAIL_SAYS_GOT;
}

void ts_stage_tell_others(struct ts_stage *stage, struct ts_stage_errand *errand, bool is_made)
{
	if (!errand->is_won)
		return;
	errand->is_won = false;
	if (is_made)
		ts_mail_store(&stage->mail, errand->index);
	else
		ts_mail_return(&stage->mail, errand->index);
}

bool ts_stage_ask_path(struct ts_stage *stage, const struct ts_stage_path *path)
{
	const struct ts_mail_request request = {
		.kind = TS_MAIL_BRING,
		.name = path->across,
		.known_as = path->here,
		.root_device = path->root_device,
		.root_inode = path->root_inode,
		.seconds = path->seconds,
		.until_ns = ts_now_ns() + ts_mail_wait_ns(),
	};
	uint32_t unused;

	return ts_stage_told_for(path->seconds) > 0 && is_served(stage) &&
	       ts_mail_ask(&stage->mail, &request, &unused) == TS_MAIL_SAYS_GOT;
}

void ts_stage_tell_path(struct ts_stage *stage, const struct ts_stage_path *path, uint64_t copy)
{
	const struct ts_mail_request request = {
		.kind = TS_MAIL_NAME,
		.name = path->across,
		.inode = copy,
		.root_device = path->root_device,
		.seconds = path->seconds,
		.until_ns = ts_now_ns() + ts_mail_wait_ns(),
	};

	if (ts_stage_told_for(path->seconds) > 0 && is_served(stage))
		(void)ts_mail_tell(&stage->mail, &request);
}
