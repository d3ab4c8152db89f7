/* SPDX-License-Identifier: MIT */
/* The helper for other nodes at work: leader/peer/peer.h explains it. */
#include "leader/peer/peer.h"

#include "leader/files/stage.h"
#include "leader/mail/mail.h"
#include "leader/object/killpoint.h"
#include "leader/peer/cluster.h"
#include "leader/peer/paths.h"
#include "leader/peer/resolve.h"
#include "leader/peer/self.h"
#include "leader/peer/transfer.h"
#include "shim/atomic.h"
#include "shim/identity.h"
#include "shim/log.h"
#include "shim/sys.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_MS UINT64_C(1000000)

/* So long samples are removed that nobody asks for any more. */
#define CLEAR_NS (2000 * NS_PER_MS)

/* In front of those of the servers. */
enum { OF_MAIL, OF_RESOLVER, OF_SERVERS };

struct peer {
	const struct ts_peer_task *task;
	struct ts_store *store;
	struct ts_stage *stage;
	struct ts_mail mail;
	struct ts_cluster *cluster;
	struct ts_cluster_watch watch;
	struct ts_secrets secrets;
	struct ssl_ctx_st *tls;
	struct ts_pool *pool;
	struct ts_resolver resolver;
	struct ts_transfers *transfers;
	struct ts_paths *paths;
	int mail_fd, places_fd, inotify_fd;
	uint64_t tick_at;
	uint64_t end_at; /* no job is left: what was stored is removed until then; 0: one is */
	uint32_t next_slot;
	struct pollfd fds[OF_SERVERS + TS_CLUSTER_SERVERS];
};

static struct peer peer = {
	.mail_fd = -1, .places_fd = -1, .inotify_fd = -1, .resolver = {.fd = -1}};

/* ---- what is told of servers ------------------------------------------------------------ */

static void told(void *context, uint32_t server, bool is_open, int error)
{
	if (server >= TS_MAIL_PEERS)
		return;
	struct ts_mail_peer *row = &peer.mail.table->peers[server];
	ts_write_relaxed(&row->state, is_open ? TS_MAIL_PEER_OPEN : TS_MAIL_PEER_SHUT);
	if (is_open)
		ts_mail_count(&peer.mail, server, TS_MAIL_COUNT_OPENED, 1);
	else if (error != -ECANCELED)
		ts_write_relaxed(&row->error, (uint64_t)-error);
}

/* Names of rows; counts of an earlier helper go on, if they are of the same server. */
static void name_rows(void)
{
	const struct ts_cluster_nodes *nodes = &peer.cluster->nodes;
	struct ts_mail_table *table = peer.mail.table;

	for (uint32_t i = 0; i < TS_MAIL_PEERS; i++) {
		struct ts_mail_peer *row = &table->peers[i];
		union {
			char text[TS_MAIL_PEER_NAME];
			uint64_t words[TS_MAIL_PEER_NAME / 8];
		} name = {.text = ""};
		if (i < nodes->count)
			ts_format(name.text, sizeof(name.text),
				strchr(nodes->servers[i].host, ':') ? "[%s]:%u" : "%s:%u",
				nodes->servers[i].host, nodes->servers[i].port);
		bool is_same = true;
		for (uint32_t word = 0; word < TS_MAIL_PEER_NAME / 8; word++) {
			is_same = is_same &&
				  ts_load_relaxed(&row->name[word]) == name.words[word];
			ts_write_relaxed(&row->name[word], name.words[word]);
		}
		ts_write_relaxed(&row->state, TS_MAIL_PEER_UNUSED);
		ts_write_relaxed(&row->error, 0);
		for (uint32_t j = 0; !is_same && j < TS_MAIL_COUNTER_COUNT; j++)
			ts_write_relaxed(&row->counters[j], 0);
	}
	ts_write_relaxed(&table->peer_count, nodes->count);
}

/* ---- beginning -------------------------------------------------------------------------- */

static int join(void)
{
	struct ts_attach_options options = {
		.ring_bytes = peer.task->ring_bytes, .job = ts_process_id(getpid(), false)};
	enum ts_reason reason;

	ts_format(options.group, sizeof(options.group), "%s", peer.task->group);
	int r = ts_store_attach(&options, &peer.store, &reason);
	if (r == 0)
		r = ts_mail_attach(peer.store, &peer.mail);
	if (r == 0)
		r = ts_mail_attach_places(peer.store, &peer.mail);
	if (r < 0)
		return r;
	peer.places_fd =
		ts_sys_open(peer.mail.places_path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0);
	if (peer.places_fd < 0)
		return peer.places_fd;
	peer.mail_fd = ts_sys_open(peer.mail.path, O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0);
	if (peer.mail_fd < 0)
		return peer.mail_fd;
	return ts_mail_enter(&peer.mail, peer.mail_fd, ts_process_id(getpid(), false));
}

/* Who posts sets the object's times; without this we look by ourselves. */
static void watch_mail(void)
{
	peer.inotify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (peer.inotify_fd >= 0 &&
		inotify_add_watch(peer.inotify_fd, peer.mail.path, IN_ATTRIB) < 0) {
		ts_sys_close(peer.inotify_fd);
		peer.inotify_fd = -1;
	}
}

static int read_cluster(void)
{
	struct ts_cluster_fault fault;
	int r = ts_cluster_watch_init(&peer.watch, peer.task->directory);

	if (r == 0)
		r = ts_cluster_read(peer.task->directory, &peer.cluster, &fault);
	if (r == 0)
		r = ts_secrets_read(peer.cluster->secret, &peer.secrets);
	if (r == 0 && peer.cluster->tls)
		r = ts_link_tls_create(peer.cluster->certificate, peer.cluster->certificate,
			peer.cluster->key, &peer.tls);
	return r;
}

/*
 * Whether the list has no server but ours.  One at 127.0.0.1 is a trial's, with groups for
 * nodes.  Names are not looked up here: jobs ask already, and a resolver may take its time.
 */
static bool is_alone(void)
{
	const struct ts_cluster_nodes *nodes = &peer.cluster->nodes;
	struct in6_addr unused;
	struct ts_self self;

	if (nodes->count != 1 ||
		(inet_pton(AF_INET, nodes->servers[0].host, &unused) != 1 &&
			inet_pton(AF_INET6, nodes->servers[0].host, &unused) != 1))
		return false;
	return ts_self_find(nodes, NULL, &self) == 0 && strncmp(self.address, "127.", 4) != 0 &&
	       strcmp(self.address, "::1") != 0;
}

static int begin(void)
{
	const struct ts_pool_hooks hooks = {.told = told};
	/* Where no files are staged there may be samples all the same. */
	int r = ts_stage_attach_existing(peer.task->group, &peer.stage);

	if (r == 0 || r == -ENOENT)
		r = read_cluster();
	if (r < 0)
		return r;
	/* A lone node would store for nobody what it has. */
	if (is_alone()) {
		ts_mail_close(&peer.mail, TS_PEER_ALONE_NS);
		return -ENONET;
	}
	if (peer.stage)
		peer.stage->capacity = peer.task->stage_bytes;
	const struct ts_cluster_nodes *nodes = &peer.cluster->nodes;
	name_rows();
	r = ts_pool_create(nodes->servers, nodes->count, peer.tls, &hooks, &peer.pool);
	if (r < 0)
		return r;
	ts_pool_set_secrets(peer.pool, &peer.secrets);
	ts_resolver_init(&peer.resolver, peer.pool, nodes->servers, nodes->count);
	watch_mail();
	r = ts_transfers_create(&peer.mail, peer.pool,
		peer.stage ? peer.stage->index.stem : NULL, &peer.secrets, &peer.transfers);
	if (r < 0)
		return r;
	ts_transfers_use_samples(peer.transfers, peer.store, peer.places_fd);
	return ts_paths_create(&peer.mail, peer.pool, peer.stage, peer.transfers, &peer.paths);
}

static void end(int error)
{
	ts_resolver_finish(&peer.resolver);
	ts_pool_destroy(peer.pool);
	ts_paths_destroy(peer.paths);
	ts_transfers_destroy(peer.transfers);
	ts_mail_resign(&peer.mail, error);
	ts_link_tls_destroy(peer.tls);
	ts_secrets_finish(&peer.secrets);
	ts_cluster_destroy(peer.cluster);
	ts_stage_destroy(peer.stage);
	if (peer.inotify_fd >= 0)
		ts_sys_close(peer.inotify_fd);
}

/* ---- now and then ----------------------------------------------------------------------- */

/* The new one, if it can be read: who writes it may not be ready yet. */
static int take_up_secret(void)
{
	struct ts_secrets secrets;

	if (ts_secrets_read(peer.cluster->secret, &secrets) < 0)
		return 0;
	int r = ts_transfers_set_secrets(peer.transfers, &secrets);
	if (r == 0) {
		ts_pool_set_secrets(peer.pool, &secrets);
		ts_cluster_watch_took_secret(&peer.watch);
	}
	ts_secrets_finish(&secrets);
	return r;
}

static void returned(void *context, const struct ts_mail_request *request)
{
	ts_transfers_return(context, request);
}

/* Errors: why it does not go on. */
static int tick(void)
{
	uint64_t now = ts_now_ns();
	bool is_other_secret = false;

	if (now < peer.tick_at)
		return 0;
	peer.tick_at = now + TS_MAIL_TICK_MS * NS_PER_MS;
	if (ts_ledger_has_live_job(ts_store_ledger(peer.store), 0))
		peer.end_at = 0;
	else if (peer.end_at == 0)
		peer.end_at = now + CLEAR_NS;
	ts_mail_sweep(&peer.mail, returned, peer.transfers);
	int r = ts_cluster_watch_look(&peer.watch, &is_other_secret);
	if (r == 0 && is_other_secret)
		r = take_up_secret();
	return r;
}

/* ---- the loop --------------------------------------------------------------------------- */

/* One more of any kind. */
static bool has_room(void)
{
	return ts_transfers_have_room(peer.transfers) && ts_paths_have_room(peer.paths);
}

static void take_all(void)
{
	struct ts_mail_request request;
	uint32_t index;

	while (has_room() && ts_mail_take(&peer.mail, peer.next_slot, &index, &request) == 0) {
		peer.next_slot = index + 1;
		bool is_path = request.kind == TS_MAIL_BRING || request.kind == TS_MAIL_NAME;
		if (is_path && !peer.stage)
			(void)ts_mail_answer(&peer.mail, index, TS_MAIL_SAYS_UNFIT);
		else if (is_path)
			ts_paths_begin(peer.paths, index, &request);
		else
			ts_transfers_begin(peer.transfers, index, &request);
	}
}

static uint64_t time_left(void)
{
	uint64_t now = ts_now_ns(), until = peer.tick_at;

	until = ts_min_u64(until, ts_pool_deadline(peer.pool));
	until = ts_min_u64(until, ts_transfers_deadline(peer.transfers));
	until = ts_min_u64(until, peer.resolver.again_at);
	/* Nobody rings, or what is posted has to wait. */
	if (peer.inotify_fd < 0 || !has_room())
		until = ts_min_u64(until, now + TS_MAIL_LOOK_MS * NS_PER_MS);
	return until > now ? until - now : 0;
}

/* Until something comes or has to be done; returns how many servers were looked at. */
static uint32_t wait_for_all(void)
{
	uint64_t left = time_left();
	bool sleeps = left > 0 && has_room();

	peer.fds[OF_MAIL] = (struct pollfd){.fd = peer.inotify_fd, .events = POLLIN};
	peer.fds[OF_RESOLVER] = (struct pollfd){.fd = peer.resolver.fd, .events = POLLIN};
	uint32_t count = ts_pool_events(peer.pool, &peer.fds[OF_SERVERS]);
	if (sleeps && !ts_mail_sleep(&peer.mail)) {
		sleeps = false;
		left = 0; /* what was posted meanwhile; servers have their turn all the same */
	}
	const struct timespec time = {
		.tv_sec = (time_t)(left / (1000 * NS_PER_MS)),
		.tv_nsec = (long)(left % (1000 * NS_PER_MS)),
	};
	(void)ppoll(peer.fds, OF_SERVERS + count, &time, NULL);
	if (sleeps)
		ts_mail_wake(&peer.mail);
	return count;
}

static void hear_bell(void)
{
	char events[1024];

	/* What it says is of no use: all slots are looked at. */
	(void)ts_sys_read(peer.inotify_fd, events, sizeof(events));
}

/* No job is left, and nothing that was stored for them. */
static bool is_over(void)
{
	return peer.end_at != 0 &&
	       (!ts_transfers_clear(peer.transfers) || ts_now_ns() >= peer.end_at);
}

/* Errors: why it does not go on; -ECANCELED no job is left. */
static int run(void)
{
	for (;;) {
		take_all();
		ts_transfers_step(peer.transfers);
		ts_pool_flush(peer.pool);
		uint32_t count = wait_for_all();
		if (peer.fds[OF_MAIL].revents)
			hear_bell();
		if (peer.fds[OF_RESOLVER].revents || peer.resolver.fd < 0)
			ts_resolver_step(&peer.resolver);
		ts_pool_step(peer.pool, &peer.fds[OF_SERVERS], count);
		int r = tick();
		if (r < 0)
			return r;
		if (is_over())
			return -ECANCELED;
	}
}

int ts_peer_run(const struct ts_peer_task *task)
{
	peer.task = task;
	int r = join();

	if (r == 0) {
		TS_KILLPOINT(peer_entered);
		r = begin();
		if (r == 0)
			r = run();
		if (r == -ECANCELED)
			r = 0;
		end(r);
	} else if (peer.mail.table && r != -EAGAIN) {
		ts_write_relaxed(&peer.mail.table->error, (uint64_t)-r);
	}
	if (peer.places_fd >= 0)
		ts_sys_close(peer.places_fd);
	if (peer.mail_fd >= 0)
		ts_sys_close(peer.mail_fd);
	ts_store_detach(peer.store);
	return r;
}
