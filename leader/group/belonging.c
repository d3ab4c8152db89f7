/* SPDX-License-Identifier: MIT */
/* Objects that go with a ring: finding or making one, and mapping it. */
#include "leader/group/attach.h"
#include "leader/group/store_private.h"
#include "shim/sys.h"

#include <string.h>
#include <sys/mman.h>

/** What is looked for. */
struct wanted {
	struct ts_store *store;
	uint64_t magic, bytes;
	uint32_t abi;
	bool of_jobs, is_sparse;
};

static void fill(void *context, void *start)
{
	const struct wanted *wanted = context;
	struct ts_belonging_head *head = start;

	head->ring_device = wanted->of_jobs ? 0 : wanted->store->ring.device;
	head->ring_inode = wanted->of_jobs ? 0 : wanted->store->ring.inode;
	head->total_bytes = wanted->bytes;
	ts_object_head_fill(head, wanted->magic, wanted->abi, &wanted->store->scope,
		offsetof(struct ts_belonging_head, check));
}

/* Errors: -ESTALE it belongs to another ring; and as for ts_belonging_map(). */
static int check(const struct wanted *wanted, const struct ts_object *object)
{
	const struct ts_store *store = wanted->store;
	struct ts_belonging_head head;
	int r = ts_object_read_start(ts_load_relaxed(&object->fd), &head, sizeof(head));

	if (r == 0)
		r = ts_object_head_check(&head, wanted->magic, wanted->abi,
			offsetof(struct ts_belonging_head, check));
	if (r == 0 && (head.total_bytes != wanted->bytes || object->bytes != wanted->bytes))
		r = -EBADMSG;
	if (r == 0)
		r = ts_scope_check(&store->scope, &head.head);
	if (r < 0 || wanted->of_jobs)
		return r;
	return head.ring_device == store->ring.device && head.ring_inode == store->ring.inode
		       ? 0
		       : -ESTALE;
}

static int make(struct wanted *wanted, struct ts_object *object)
{
	uint64_t allocate = wanted->is_sparse ? TS_PAGE_BYTES : wanted->bytes;

	return ts_object_make(object, wanted->bytes, allocate, fill, wanted);
}

/* Under the group's lock. */
static int open_or_make(struct wanted *wanted, struct ts_object *object)
{
	/* Who still uses a ring that was replaced must not replace what is the new one's. */
	if (!wanted->of_jobs && !ts_object_is_named(&wanted->store->ring))
		return -ESTALE;
	int r = ts_object_open(object);
	if (r == -ENOENT)
		return make(wanted, object);
	if (r < 0)
		return r;
	r = check(wanted, object);
	if (r == -ESTALE) {
		/* Left by a ring that was removed by hand; its users keep theirs. */
		ts_object_close(object);
		ts_sys_unlink(object->path);
		return make(wanted, object);
	}
	if (r < 0)
		ts_object_close(object);
	return r;
}

/* Map and close it.  Errors: -ENOMEM. */
static int map_object(struct ts_object *object, uint64_t bytes, void **ret_start)
{
	void *start = MAP_FAILED;

	if (bytes <= ts_limits_address_space())
		start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
			ts_load_relaxed(&object->fd), 0);
	ts_object_close(object);
	if (start == MAP_FAILED)
		return -ENOMEM;
	*ret_start = start;
	return 0;
}

static int map(struct wanted *wanted, uint32_t which, void **ret_start)
{
	struct ts_store *store = wanted->store;
	struct ts_object object = {.fd = -1};

	memcpy(object.path, store->belongings[which], sizeof(object.path));
	int r = ts_store_lock(store);
	if (r < 0)
		return r;
	r = open_or_make(wanted, &object);
	ts_store_unlock(store);
	return r < 0 ? r : map_object(&object, wanted->bytes, ret_start);
}

int ts_belonging_map(struct ts_store *store, uint32_t which, uint64_t magic, uint32_t abi,
	uint64_t bytes, void **ret_start)
{
	struct wanted wanted = {.store = store, .magic = magic, .bytes = bytes, .abi = abi};

	return map(&wanted, which, ret_start);
}

int ts_belonging_map_of_jobs(struct ts_store *store, uint32_t which, uint64_t magic,
	uint32_t abi, uint64_t bytes, void **ret_start)
{
	struct wanted wanted = {
		.store = store, .magic = magic, .bytes = bytes, .abi = abi, .of_jobs = true};

	return map(&wanted, which, ret_start);
}

int ts_belonging_map_sparse(struct ts_store *store, uint32_t which, uint64_t magic,
	uint32_t abi, uint64_t bytes, void **ret_start)
{
	struct wanted wanted = {.store = store,
		.magic = magic,
		.bytes = bytes,
		.abi = abi,
		.of_jobs = true,
		.is_sparse = true};

	return map(&wanted, which, ret_start);
}
