/* SPDX-License-Identifier: MIT */
/* Where paths lead, between nodes: leader/peer/paths.h explains it. */
#include "leader/peer/paths.h"

#include "leader/files/remote.h"
#include "leader/object/killpoint.h"
#include "leader/peer/value.h"
#include "shim/sys.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

/* "n1:", 32 digits; behind it ":0". */
#define KEY_BYTES   40
#define CHUNK_BYTES (KEY_BYTES + 4)

enum state { ASKING, FETCHING, FOLLOWS };

struct path {
	struct ts_paths *all;
	struct path *next; /* free ones; of the same path, those that follow */
	enum state state;
	bool is_used;
	uint32_t index; /* of the slot */
	struct ts_mail_request request;
	struct ts_pool_request asked;
	struct ts_value_head head;
	size_t key_bytes;
	char key[KEY_BYTES], chunk_key[CHUNK_BYTES];
	unsigned char told[TS_STAGE_TOLD_BYTES];
	struct ts_stage_remote bringing;
};

struct ts_paths {
	struct ts_mail *mail;
	struct ts_pool *pool;
	struct ts_stage *stage;
	struct ts_transfers *transfers;
	struct path *free;
	struct path paths[TS_PATHS];
};

/* ---- all of them ------------------------------------------------------------------------ */

int ts_paths_create(struct ts_mail *mail, struct ts_pool *pool, struct ts_stage *stage,
	struct ts_transfers *transfers, struct ts_paths **ret_paths)
{
	/* Zeroed, and memory only where it is touched. */
	struct ts_paths *all = mmap(
		NULL, sizeof(*all), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (all == MAP_FAILED)
		return -ENOMEM;
	all->mail = mail;
	all->pool = pool;
	all->stage = stage;
	all->transfers = transfers;
	for (uint32_t i = TS_PATHS; i-- > 0;) {
		all->paths[i].all = all;
		all->paths[i].next = all->free;
		all->free = &all->paths[i];
	}
	*ret_paths = all;
	return 0;
}

bool ts_paths_have_room(const struct ts_paths *paths)
{
	return paths->free != NULL;
}

/* It and those that follow it have @answer. */
static void end(struct path *path, enum ts_mail_answer answer)
{
	struct ts_paths *all = path->all;
	struct path *next;

	TS_KILLPOINT(bring_ends);
	for (; path; path = next) {
		next = path->next;
		(void)ts_mail_answer(all->mail, path->index, answer);
		path->is_used = false;
		path->next = all->free;
		all->free = path;
	}
}

void ts_paths_destroy(struct ts_paths *paths)
{
	if (!paths)
		return;
	for (uint32_t i = 0; i < TS_PATHS; i++)
		if (paths->paths[i].is_used && paths->paths[i].state != FOLLOWS) {
			struct path *path = &paths->paths[i];
			if (path->state == FETCHING)
				(void)ts_stage_remote_end(
					paths->stage, &path->bringing, -ECANCELED);
			end(path, TS_MAIL_SAYS_NONE);
		}
	munmap(paths, sizeof(*paths));
}

/* ---- values ----------------------------------------------------------------------------- */

static struct ts_value_place place_of(const struct path *path, uint64_t total)
{
	return (struct ts_value_place){
		.key = path->key, .key_bytes = path->key_bytes, .total = total};
}

/* Send it for the value, of which @bytes are at .told. */
static void submit(struct path *path, enum ts_meta_kind kind, size_t bytes, uint64_t allowed_ns,
	void (*done)(struct ts_pool_request *request))
{
	path->asked = (struct ts_pool_request){
		.meta = {.kind = kind,
			.key = path->chunk_key,
			.parts = {{&path->head, sizeof(path->head)}, {path->told, bytes}},
			.ttl = kind == TS_META_SET ? ts_stage_told_for(path->request.seconds)
						   : 0,
			.until_ns = ts_now_ns() + ts_pool_patience(allowed_ns)},
		.done = done,
		.context = path,
	};
	int r = ts_pool_submit(path->all->pool, &path->asked);
	if (r < 0)
		end(path, ts_transfers_explain(path->all->transfers, path->asked.server, r));
	TS_KILLPOINT(bring_asked);
}

/* ---- telling ---------------------------------------------------------------------------- */

static void told(struct ts_pool_request *request)
{
	struct path *path = request->context;

	if (request->meta.result == 0)
		ts_mail_count(path->all->mail, request->server, TS_MAIL_COUNT_TOLD, 1);
	else
		(void)ts_transfers_explain(
			path->all->transfers, request->server, request->meta.result);
	end(path, TS_MAIL_SAYS_NONE);
}

static void tell(struct path *path)
{
	const struct ts_mail_request *request = &path->request;
	int bytes = ts_stage_tell(
		path->all->stage, request->inode, request->root_device, path->told);

	if (bytes <= 0 || ts_stage_told_for(request->seconds) == 0) {
		end(path, TS_MAIL_SAYS_UNFIT);
		return;
	}
	const struct ts_value_place place = place_of(path, (uint64_t)bytes);
	if (ts_value_seal(ts_transfers_sealer(path->all->transfers), &place, path->told,
		    &path->head) < 0) {
		end(path, TS_MAIL_SAYS_FAILED);
		return;
	}
	submit(path, TS_META_SET, (size_t)bytes, TS_TRANSFER_STORE_NS, told);
}

/* ---- bringing --------------------------------------------------------------------------- */

/* The copy is there, or not, for @answer. */
static void finish(struct path *path, enum ts_mail_answer answer)
{
	const struct ts_mail_request *request = &path->request;
	struct ts_paths *all = path->all;
	int r = ts_stage_remote_end(
		all->stage, &path->bringing, answer == TS_MAIL_SAYS_GOT ? 0 : -ECANCELED);

	TS_KILLPOINT(bring_made);
	if (answer != TS_MAIL_SAYS_GOT) {
		end(path, answer);
		return;
	}
	if (r == 0)
		r = ts_stage_remote_note(
			all->stage, &path->bringing, request->known_as, request->seconds);
	if (r == 0)
		ts_mail_count(all->mail, path->asked.server, TS_MAIL_COUNT_BROUGHT, 1);
	end(path, r == 0 ? TS_MAIL_SAYS_GOT : TS_MAIL_SAYS_UNFIT);
}

static void fetched(void *context, enum ts_mail_answer answer)
{
	finish(context, answer);
}

static void fetch(struct path *path)
{
	const struct ts_mail_request request = {
		.kind = TS_MAIL_FETCH,
		.name = path->bringing.name,
		.copy = path->bringing.copy,
		.inode = path->bringing.inode,
		.bytes = path->bringing.was.bytes,
		.until_ns = path->request.until_ns,
	};

	path->state = FETCHING;
	ts_transfers_begin_for(path->all->transfers, path->index, &request, fetched, path);
}

/* What came is what was told, or nothing is done with it. */
static int open_told(struct path *path, const struct ts_meta_request *meta)
{
	const struct ts_value_place place = place_of(path, TS_VALUE_ANY_TOTAL);

	if (meta->result < 0)
		return meta->result;
	return ts_value_open(ts_transfers_sealer(path->all->transfers), &place, &path->head,
		meta->bytes, path->told);
}

static void asked(struct ts_pool_request *request)
{
	struct path *path = request->context;
	struct ts_paths *all = path->all;
	int r = open_told(path, &request->meta);

	TS_KILLPOINT(bring_opened);
	if (r < 0) {
		bool is_value = request->meta.result == 0;
		if (is_value)
			ts_mail_count(all->mail, request->server, TS_MAIL_COUNT_REFUSED, 1);
		end(path, is_value ? TS_MAIL_SAYS_REFUSED
				   : ts_transfers_explain(all->transfers, request->server, r));
		return;
	}
	if (!ts_mail_is_wanted(all->mail, path->index) && !path->next) {
		end(path, TS_MAIL_SAYS_LATE);
		return;
	}
	r = ts_stage_remote_begin(all->stage, path->told, path->head.bytes,
		path->request.root_device, &path->bringing);
	TS_KILLPOINT(bring_begun);
	if (r < 0)
		end(path, r == -EBUSY ? TS_MAIL_SAYS_LATE : TS_MAIL_SAYS_UNFIT);
	else if (path->bringing.part < 0)
		finish(path, TS_MAIL_SAYS_GOT);
	else if (!ts_transfers_have_room(all->transfers))
		finish(path, TS_MAIL_SAYS_NONE);
	else
		fetch(path);
}

/* ---- beginning -------------------------------------------------------------------------- */

/* Another BRING of the same, if there is one. */
static struct path *find_same(const struct path *path)
{
	struct ts_paths *all = path->all;

	for (uint32_t i = 0; i < TS_PATHS; i++) {
		struct path *other = &all->paths[i];
		if (other != path && other->is_used && other->state != FOLLOWS &&
			other->request.kind == TS_MAIL_BRING &&
			other->request.seconds == path->request.seconds &&
			memcmp(&other->request.name, &path->request.name,
				sizeof(path->request.name)) == 0 &&
			memcmp(&other->request.known_as, &path->request.known_as,
				sizeof(path->request.known_as)) == 0)
			return other;
	}
	return NULL;
}

static void bring(struct path *path)
{
	struct path *same = find_same(path);

	if (same) {
		path->state = FOLLOWS;
		path->next = same->next;
		same->next = path;
		return;
	}
	submit(path, TS_META_GET, sizeof(path->told), TS_TRANSFER_ANSWER_NS, asked);
}

void ts_paths_begin(
	struct ts_paths *paths, uint32_t index, const struct ts_mail_request *request)
{
	struct path *path = paths->free;

	paths->free = path->next;
	path->next = NULL;
	path->state = ASKING;
	path->is_used = true;
	path->index = index;
	path->request = *request;
	path->key_bytes = (size_t)snprintf(path->key, sizeof(path->key), "n1:%016llx%016llx",
		(unsigned long long)request->name.hi, (unsigned long long)request->name.lo);
	(void)snprintf(path->chunk_key, sizeof(path->chunk_key), "%s:0", path->key);
	if (request->kind == TS_MAIL_NAME)
		tell(path);
	else
		bring(path);
}
