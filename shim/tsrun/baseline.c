/* SPDX-License-Identifier: MIT */
/* Counting anew: what was counted before, in an object of its own. */
#include "shim/tsrun/baseline.h"
#include "leader/group/layout.h"
#include "shim/atomic.h"
#include "shim/tsrun/nodes.h"
#include "shim/tsrun/view.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MAGIC UINT64_C(0x3554535253535354) /* "TSSSRST5" */

struct baseline {
	struct ts_object_head head;
	uint64_t ledger_device, ledger_inode, nodes_inode;
	uint64_t at_ns; /* CLOCK_REALTIME */
	uint64_t check; /* ts_hash64 of everything above */
	_Alignas(64) char ledger[TS_LEDGER_BYTES];
	_Alignas(64) struct ts_baseline_nodes nodes;
};
static_assert(offsetof(struct baseline, ledger) == 128, "nothing in between is left unwritten");

static struct baseline *create(void)
{
	struct baseline *baseline = aligned_alloc(64, sizeof(*baseline));

	if (baseline)
		memset(baseline, 0, sizeof(*baseline));
	return baseline;
}

/* ---- subtracting ------------------------------------------------------------------------- */

/* One that shrank is another one, or damaged. */
static void take_off(_Atomic uint64_t *counter, _Atomic uint64_t *then)
{
	uint64_t now = ts_load_relaxed(counter), before = ts_load_relaxed(then);

	if (now >= before)
		ts_write_relaxed(counter, now - before);
}

static void take_off_tallies(struct ts_tally *tallies, struct ts_tally *then)
{
	for (int kind = 0; kind < TS_KIND_COUNT; kind++) {
		take_off(&tallies[kind].produced, &then[kind].produced);
		take_off(&tallies[kind].shared, &then[kind].shared);
		take_off(&tallies[kind].shared_bytes, &then[kind].shared_bytes);
		take_off(&tallies[kind].saved_ns, &then[kind].saved_ns);
	}
}

static void take_off_reasons(_Atomic uint64_t *passed, _Atomic uint64_t *then)
{
	for (int i = 0; i < TS_REASON_SLOTS; i++)
		take_off(&passed[i], &then[i]);
}

static void take_off_job(struct ts_ledger *ledger, struct ts_ledger *then, uint32_t index)
{
	struct ts_job_row *row = ts_ledger_job(ledger, index);
	struct ts_job_row *before = ts_ledger_job(then, index);
	struct ts_drawn_row *drawn = ts_ledger_drawn(ledger, index);
	struct ts_drawn_row *drawn_before = ts_ledger_drawn(then, index);

	/* The row may be another job's now. */
	if (ts_load_relaxed(&row->id) != ts_load_relaxed(&before->id) ||
		ts_load_relaxed(&row->ticket) != ts_load_relaxed(&before->ticket))
		return;
	take_off_tallies(row->kinds, before->kinds);
	take_off_reasons(row->passed, before->passed);
	if (ts_load_relaxed(&drawn->identity) != ts_load_relaxed(&drawn_before->identity))
		return;
	take_off(&drawn->computed, &drawn_before->computed);
	take_off(&drawn->delivered, &drawn_before->delivered);
}

void ts_baseline_subtract_from(struct ts_ledger *ledger, struct ts_ledger *then)
{
	take_off(&ledger->verified, &then->verified);
	take_off(&ledger->mismatched, &then->mismatched);
	take_off_reasons(ledger->passed, then->passed);
	for (uint32_t d = 0; d < TS_DATASET_MAX; d++) {
		struct ts_dataset_row *row = ts_ledger_dataset(ledger, d);
		struct ts_dataset_row *before = ts_ledger_dataset(then, d);
		if (ts_load_relaxed(&row->name_hash) == ts_load_relaxed(&before->name_hash))
			take_off_tallies(row->kinds, before->kinds);
	}
	for (uint32_t j = 0; j < TS_JOB_MAX; j++)
		take_off_job(ledger, then, j);
}

static bool is_same_name(struct ts_mail_peer *one, struct ts_mail_peer *other)
{
	for (size_t i = 0; i < TS_ARRAY_SIZE(one->name); i++)
		if (ts_load_relaxed(&one->name[i]) != ts_load_relaxed(&other->name[i]))
			return false;
	return true;
}

static void take_off_node(struct ts_mail_peer *peer, struct ts_mail_peer *then)
{
	for (size_t i = 0; is_same_name(peer, then) && i < TS_ARRAY_SIZE(peer->counters); i++)
		take_off(&peer->counters[i], &then->counters[i]);
}

void ts_baseline_subtract_nodes(struct ts_mail_table *nodes, struct ts_baseline_nodes *then)
{
	take_off(&nodes->posted, &then->posted);
	take_off(&nodes->unposted, &then->unposted);
	take_off(&nodes->left, &then->left);
#define TS_X(member, ...)                                        \
	take_off(&nodes->samples.member, &then->samples.member); \
	take_off(&nodes->pictures.member, &then->pictures.member);
	TS_NODE_FLOW(TS_X)
#undef TS_X
#define TS_X(member, ...) take_off(&nodes->use.member, &then->use.member);
	TS_NODE_USE(TS_X)
#undef TS_X
	for (uint32_t i = 0; i < TS_MAIL_PEERS; i++)
		take_off_node(&nodes->peers[i], &then->peers[i]);
}

/* ---- the object -------------------------------------------------------------------------- */

static bool is_of(const struct baseline *baseline, const struct ts_baseline_of *of)
{
	return ts_object_head_check(
		       baseline, MAGIC, TS_ABI, offsetof(struct baseline, check)) == 0 &&
	       baseline->ledger_device == of->device && baseline->ledger_inode == of->inode;
}

static bool load(const struct ts_baseline_of *of, struct baseline *ret_baseline)
{
	char path[TS_PATH_BYTES];
	struct stat st;
	int fd;

	if (ts_object_path(path, sizeof(path), of->group, "reset") < 0 ||
		ts_view_open(path, false, &fd, &st) < 0)
		return false;
	bool whole = st.st_size == (off_t)sizeof(*ret_baseline) &&
		     pread(fd, ret_baseline, sizeof(*ret_baseline), 0) ==
			     (ssize_t)sizeof(*ret_baseline);
	(void)close(fd);
	return whole && is_of(ret_baseline, of);
}

void ts_baseline_subtract(const struct ts_baseline_of *of, struct ts_ledger *ledger,
	struct ts_mail_table *nodes, uint64_t *ret_at_ns)
{
	struct baseline *baseline = create();

	*ret_at_ns = 0;
	if (baseline && load(of, baseline)) {
		ts_baseline_subtract_from(ledger, (struct ts_ledger *)baseline->ledger);
		if (nodes && baseline->nodes_inode == of->nodes_inode)
			ts_baseline_subtract_nodes(nodes, &baseline->nodes);
		*ret_at_ns = baseline->at_ns;
	}
	free(baseline);
}

static int write_all(int fd, const void *data, size_t bytes)
{
	for (size_t done = 0; done < bytes;) {
		ssize_t n = write(fd, (const char *)data + done, bytes - done);
		if (n < 0 && errno != EINTR)
			return -errno;
		done += n > 0 ? (size_t)n : 0;
	}
	return 0;
}

/* Under a name that `tsrun gc` knows, so that nothing stays if we are killed. */
static int write_object(const char *path, const struct baseline *baseline)
{
	char private[TS_PATH_BYTES + 16];
	size_t stem = (size_t)(strrchr(path, '.') - path);

	(void)snprintf(private, sizeof(private), "%.*s.new.%d", (int)stem, path, (int)getpid());
	(void)unlink(private); /* left by a killed process that had our pid */
	int fd = open(private, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	int r = write_all(fd, baseline, sizeof(*baseline));
	if (close(fd) < 0 && r == 0)
		r = -errno;
	if (r == 0 && rename(private, path) < 0)
		r = -errno;
	if (r < 0)
		(void)unlink(private);
	return r;
}

static void keep_nodes(const struct ts_mail_table *nodes, struct ts_baseline_nodes *then)
{
	then->posted = nodes->posted;
	then->unposted = nodes->unposted;
	then->left = nodes->left;
	then->samples = nodes->samples;
	then->pictures = nodes->pictures;
	then->use = nodes->use;
	memcpy(then->peers, nodes->peers, sizeof(then->peers));
}

int ts_baseline_store(const struct ts_baseline_of *of, const struct ts_ledger *ledger,
	const struct ts_mail_table *nodes)
{
	char path[TS_PATH_BYTES];
	struct ts_scope scope;
	struct timespec now;

	int r = ts_object_path(path, sizeof(path), of->group, "reset");
	if (r == 0)
		r = ts_scope_read(&scope);
	if (r < 0)
		return r;
	struct baseline *baseline = create();
	if (!baseline)
		return -ENOMEM;
	(void)clock_gettime(CLOCK_REALTIME, &now);
	baseline->at_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	baseline->ledger_device = of->device;
	baseline->ledger_inode = of->inode;
	baseline->nodes_inode = nodes ? of->nodes_inode : 0;
	ts_object_head_fill(baseline, MAGIC, TS_ABI, &scope, offsetof(struct baseline, check));
	memcpy(baseline->ledger, ledger, TS_LEDGER_BYTES);
	if (nodes)
		keep_nodes(nodes, &baseline->nodes);
	r = write_object(path, baseline);
	free(baseline);
	return r;
}
