/* SPDX-License-Identifier: MIT */
/* This process's way to its group's copies of files: joining, and finding what is a copy. */
#include "hooks/file/staged_join.h"

#include "shim/atomic.h"
#include "shim/config.h"
#include "shim/identity.h"
#include "shim/sys.h"

#include <unistd.h>

#define RETRY_NS UINT64_C(1000000000)

static struct ts_stage *_Atomic stage;
static _Atomic uint32_t stage_serial; /* of the process that made sure of it */
static _Atomic pid_t attaching;       /* the process one thread of which is at it, or 0 */
static _Atomic uint64_t retry_at;

/* The index of a group that had ended meanwhile is nobody's: a fork child may have it still. */
static struct ts_stage *still_valid(uint32_t serial)
{
	struct ts_stage *known = ts_load_acquire(&stage);
	if (!known || ts_load_relaxed(&stage_serial) == serial)
		return known;
	if (known->capacity == 0 || !ts_object_is_named(&known->index.object))
		return NULL;
	ts_write_relaxed(&stage_serial, serial);
	return known;
}

struct ts_stage *ts_staged_joined(void)
{
	struct ts_stage *known = ts_load_acquire(&stage);
	bool is_mine = known && known->capacity > 0 &&
		       ts_load_relaxed(&stage_serial) == ts_identity_serial();
	return TS_LIKELY(is_mine) ? known : NULL;
}

/* Old ones stay mapped: another thread may be asking them. */
static struct ts_stage *join(const struct ts_session *session)
{
	const struct ts_config *config = ts_config();
	struct ts_stage *joined;
	if (ts_stage_attach(session->store, config->group, config->stage_dir,
		    config->stage_bytes, &joined) < 0) {
		ts_write_relaxed(&retry_at, ts_now_ns() + RETRY_NS);
		return NULL;
	}
	if (config->cluster)
		(void)ts_stage_use_others(joined, session->store);
	ts_write_relaxed(&stage_serial, ts_identity_serial());
	ts_write_release(&stage, joined); /* pairs with the loads of `stage` */
	return joined;
}

static bool begin_attaching(void)
{
	pid_t self = getpid(), holder = ts_load_relaxed(&attaching);
	return ts_now_ns() >= ts_load_relaxed(&retry_at) && holder != self &&
	       ts_cas(&attaching, &holder, self);
}

struct ts_stage *ts_staged_join(const struct ts_session *session)
{
	uint32_t serial = ts_identity_serial();
	struct ts_stage *joined = still_valid(serial);
	if (joined && joined->capacity > 0)
		return joined;
	if (!begin_attaching())
		return NULL;
	joined = still_valid(serial);
	if (!joined || joined->capacity == 0)
		joined = join(session);
	ts_write_release(&attaching, 0);
	return joined;
}

struct ts_stage *ts_staged_enter(void)
{
	struct ts_stage *joined = ts_staged_joined();
	enum ts_reason reason;
	if (TS_LIKELY(joined) || ts_identity_check() == TS_VFORK_CHILD)
		return joined;
	const struct ts_session *session = ts_session_enter_for_files(&reason);
	return session ? ts_staged_join(session) : NULL;
}

/*
 * A copy may come to a process that never opened one: from a shell, by exec, through a socket.
 * What has a copy's mode and owner is a reason to look for the group's index, which most
 * processes never meet.
 */
static const struct ts_stage *stage_to_ask(void)
{
	struct ts_stage *known = ts_load_acquire(&stage);
	if (TS_LIKELY(known) || ts_identity_check() != TS_SAME_PROCESS || !begin_attaching())
		return known;
	known = ts_load_acquire(&stage);
	if (!known && ts_stage_attach_existing(ts_config()->group, &known) == 0)
		ts_write_release(&stage, known);
	if (!known)
		ts_write_relaxed(&retry_at, ts_now_ns() + RETRY_NS);
	ts_write_release(&attaching, 0);
	return known;
}

/* Who only asks does not keep the index: when it has gone, there may be another one. */
static void forget_if_gone(const struct ts_stage *known)
{
	struct ts_stage *expected = (struct ts_stage *)known;
	if (known->capacity == 0 && !ts_object_is_named(&known->index.object))
		(void)ts_cas(&stage, &expected, NULL);
}

struct ts_stage *ts_staged_for_changes(void)
{
	struct ts_stage *known = ts_load_acquire(&stage), *none = NULL;
	if (known)
		forget_if_gone(known);
	known = ts_load_acquire(&stage);
	if (known || ts_stage_attach_existing(ts_config()->group, &known) < 0)
		return known;
	if (ts_cas(&stage, &none, known))
		return known;
	ts_stage_destroy(known); /* another thread was first, and nobody has seen this one */
	return none;
}

bool ts_staged_find(
	const struct stat *copy, struct ts_stage_attributes *ret_attributes, char *ret_path)
{
	if (TS_LIKELY(copy->st_mode != (S_IFREG | 0400)))
		return false;
	int saved = errno;
	const struct ts_stage *known = stage_to_ask();
	errno = saved;
	if (!known || copy->st_uid != known->index.uid)
		return false;
	if (ts_stage_index_find(&known->index, copy, ret_attributes, ret_path))
		return true;
	forget_if_gone(known);
	return false;
}
