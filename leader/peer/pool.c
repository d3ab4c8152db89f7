/* SPDX-License-Identifier: MIT */
/* The servers of a cluster: leader/peer/pool.h explains them. */
#include "leader/peer/pool.h"

#include "leader/peer/breaker.h"
#include "shim/hash.h"
#include "shim/sys.h"

#include <math.h>
#include <openssl/crypto.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

#define NOBODY UINT32_MAX

static const struct ts_breaker_times breaker_times = {
	.first_ns = TS_POOL_PAUSE_NS, .last_ns = TS_POOL_PAUSE_MAX_NS};

struct server {
	char host[TS_CLUSTER_HOST + 1];
	uint64_t name; /* a number made of host and port */
	uint32_t weight;
	struct sockaddr_storage address;
	unsigned address_bytes; /* 0: AWAY */
	struct ts_breaker breaker;
	uint64_t shut_until;
	uint32_t token;  /* which of the secrets' */
	uint32_t on_way; /* requests */
	uint32_t active; /* its place among those with a connection; or NOBODY */
	bool is_dirty;   /* something was submitted since its last step */
	struct ts_link link;
	struct ts_meta meta;
};

struct ts_pool {
	struct ts_pool_hooks hooks;
	struct ssl_ctx_st *tls;
	struct ts_secrets secrets; /* .count 0: servers want no token */
	uint32_t count, active_count;
	uint32_t *active; /* servers with a connection */
	bool is_ending;
	struct ts_pool_request *finished, **finished_end;
	struct server *servers;
};

static uint64_t random_seed(void)
{
	uint64_t seed = 0;

	if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != sizeof(seed))
		seed = ts_now_ns();
	return seed;
}

uint64_t ts_pool_patience(uint64_t ns)
{
#ifdef TS_TEST_BUILD
	/* A busy machine is no fault of a server's. */
	const char *factor = getenv("TSSHIM_TEST_PATIENCE");
	if (factor)
		return ns * strtoull(factor, NULL, 10);
#endif
	return ns;
}

/* ---- life ------------------------------------------------------------------------------- */

static int fill(struct ts_pool *pool, const struct ts_cluster_server *servers)
{
	pool->servers = calloc(pool->count, sizeof(*pool->servers));
	pool->active = calloc(pool->count, sizeof(*pool->active));
	if (!pool->servers || !pool->active)
		return -ENOMEM;
	for (uint32_t i = 0; i < pool->count; i++) {
		struct server *server = &pool->servers[i];
		char name[TS_CLUSTER_NAME];
		ts_cluster_name_server(&servers[i], name);
		server->name = ts_hash64(name, strlen(name));
		server->weight = servers[i].weight;
		memcpy(server->host, servers[i].host, strlen(servers[i].host) + 1);
		server->active = NOBODY;
		ts_breaker_init(&server->breaker, &breaker_times, random_seed());
	}
	return 0;
}

int ts_pool_create(const struct ts_cluster_server *servers, uint32_t count,
	struct ssl_ctx_st *tls, const struct ts_pool_hooks *hooks, struct ts_pool **ret_pool)
{
	struct ts_pool *pool;

	if (count == 0 || count > TS_CLUSTER_SERVERS)
		return -EINVAL;
	pool = calloc(1, sizeof(*pool));
	if (!pool)
		return -ENOMEM;
	pool->hooks = *hooks;
	pool->tls = tls;
	pool->count = count;
	pool->finished_end = &pool->finished;
	if (!pool->hooks.open)
		pool->hooks.open = ts_link_open;
	int r = fill(pool, servers);
	if (r < 0) {
		ts_pool_destroy(pool);
		return r;
	}
	*ret_pool = pool;
	return 0;
}

static void tell(struct ts_pool *pool, const struct server *server, bool is_open, int error)
{
	if (pool->hooks.told)
		pool->hooks.told(pool->hooks.context, (uint32_t)(server - pool->servers),
			is_open, error);
}

static void close_server(struct ts_pool *pool, struct server *server, int error)
{
	uint32_t last = pool->active[--pool->active_count];

	pool->active[server->active] = last;
	pool->servers[last].active = server->active;
	server->active = NOBODY;
	server->is_dirty = false;
	ts_meta_finish(&server->meta, error);
	ts_link_close(&server->link);
	tell(pool, server, false, error);
}

static void give_back_finished(struct ts_pool *pool);

void ts_pool_destroy(struct ts_pool *pool)
{
	if (!pool)
		return;
	pool->is_ending = true;
	while (pool->active_count > 0)
		close_server(pool, &pool->servers[pool->active[0]], -ECANCELED);
	give_back_finished(pool);
	OPENSSL_cleanse(&pool->secrets, sizeof(pool->secrets));
	free(pool->servers);
	free(pool->active);
	free(pool);
}

void ts_pool_set_secrets(struct ts_pool *pool, const struct ts_secrets *secrets)
{
	OPENSSL_cleanse(&pool->secrets, sizeof(pool->secrets));
	if (secrets)
		pool->secrets = *secrets;
	/* A connection that was let in stays. */
	for (uint32_t i = 0; i < pool->count; i++) {
		pool->servers[i].token = 0;
		pool->servers[i].shut_until = 0;
	}
}

void ts_pool_set_address(struct ts_pool *pool, uint32_t server, const struct sockaddr *address,
	unsigned address_bytes)
{
	if (server >= pool->count || address_bytes > sizeof(struct sockaddr_storage))
		return;
	memcpy(&pool->servers[server].address, address, address_bytes);
	pool->servers[server].address_bytes = address_bytes;
}

bool ts_pool_has_address(const struct ts_pool *pool, uint32_t server)
{
	return pool->servers[server].address_bytes > 0;
}

/* ---- which server has a key ------------------------------------------------------------- */

/* A number of 53 bits as a part of 1, neither 0 nor 1. */
static double part_of(uint64_t number)
{
	return ((double)(number >> 11) + 0.5) * 0x1p-53;
}

/* Of the N numbers of a server with weight N the largest one has this as its distribution. */
static bool is_larger(const struct server *one, uint64_t number, const struct server *other,
	uint64_t other_number)
{
	if (one->weight == other->weight)
		return number > other_number;
	return log(part_of(number)) / one->weight > log(part_of(other_number)) / other->weight;
}

uint32_t ts_pool_server(const struct ts_pool *pool, const char *key)
{
	uint64_t of_key = ts_hash64(key, strlen(key)), largest = 0;
	uint32_t found = 0;

	for (uint32_t i = 0; i < pool->count; i++) {
		const uint64_t both[2] = {pool->servers[i].name, of_key};
		uint64_t number = ts_hash64(both, sizeof(both));
		if (i > 0 &&
			!is_larger(&pool->servers[i], number, &pool->servers[found], largest))
			continue;
		found = i;
		largest = number;
	}
	return found;
}

/* ---- the ends of requests --------------------------------------------------------------- */

/* Whoever is at the other end does not know us, or we do not know him. */
static bool is_refused(const struct server *server)
{
	return server->meta.state == TS_META_BROKEN && server->meta.error == -EACCES;
}

/* Called from within the connection, where nothing may be submitted to another one yet. */
static void finish(struct ts_meta_request *meta)
{
	struct ts_pool_request *request = meta->context;
	struct ts_pool *pool = request->pool;
	struct server *server = &pool->servers[request->server];
	bool is_broken = server->meta.state == TS_META_BROKEN;

	server->on_way--;
	if (meta->result == -ECANCELED || is_refused(server))
		ts_breaker_returned(&server->breaker, request->ticket);
	else if (is_broken || meta->result == -ETIMEDOUT)
		ts_breaker_failed(&server->breaker, request->ticket);
	else
		ts_breaker_answered(&server->breaker, request->ticket);
	request->next = NULL;
	*pool->finished_end = request;
	pool->finished_end = &request->next;
}

static int submit(struct ts_pool *pool, struct ts_pool_request *request);

/* Once more, where the server has refused one token and may know another one. */
static bool is_sent_again(struct ts_pool *pool, struct ts_pool_request *request)
{
	if (request->meta.result != -EACCES || request->is_second ||
		pool->servers[request->server].token == 0)
		return false;
	request->is_second = true;
	return submit(pool, request) == 0;
}

static void give_back_finished(struct ts_pool *pool)
{
	struct ts_pool_request *request = pool->finished;

	/* What ends from here on is for the next time. */
	pool->finished = NULL;
	pool->finished_end = &pool->finished;
	while (request) {
		struct ts_pool_request *next = request->next;
		if (!is_sent_again(pool, request))
			request->done(request);
		request = next;
	}
}

/* ---- connections ------------------------------------------------------------------------ */

static void leave(struct ts_pool *pool, struct server *server)
{
	int error = server->meta.error;

	if (error == -EACCES) {
		/* Before TLS is up it is the certificates that do not fit. */
		bool is_token = server->link.state == TS_LINK_UP;
		server->token++;
		if (!is_token || server->token >= pool->secrets.count) {
			server->token = 0;
			server->shut_until = ts_now_ns() + TS_POOL_SHUT_NS;
		}
	}
	close_server(pool, server, error);
}

static int connect_server(struct ts_pool *pool, struct server *server)
{
	const char *token =
		pool->secrets.count > 0 ? pool->secrets.keys[server->token].token : NULL;
	int r = pool->hooks.open(&server->link, (struct sockaddr *)&server->address,
		server->address_bytes, pool->tls, server->host);

	if (r < 0)
		return r;
	r = ts_meta_init(&server->meta, &server->link, TS_POOL_USER, token,
		(uint32_t)random_seed(), ts_now_ns() + ts_pool_patience(TS_POOL_OPEN_NS));
	if (r < 0) {
		ts_link_close(&server->link);
		return r;
	}
	server->active = pool->active_count;
	pool->active[pool->active_count++] = (uint32_t)(server - pool->servers);
	tell(pool, server, true, 0);
	return 0;
}

static int get_ready(struct ts_pool *pool, struct server *server)
{
	if (server->active != NOBODY)
		return 0;
	int r = connect_server(pool, server);
	if (r < 0)
		tell(pool, server, false, r);
	return r;
}

static int submit(struct ts_pool *pool, struct ts_pool_request *request)
{
	struct server *server = &pool->servers[request->server];
	uint64_t now = ts_now_ns();

	if (pool->is_ending)
		return -ECANCELED;
	if (now >= request->meta.until_ns)
		return -ETIMEDOUT;
	if (server->address_bytes == 0)
		return -EADDRNOTAVAIL;
	if (now < server->shut_until)
		return -EACCES;
	int r = ts_breaker_ask(&server->breaker, &request->ticket);
	if (r < 0)
		return r;
	r = get_ready(pool, server);
	if (r < 0) {
		ts_breaker_failed(&server->breaker, request->ticket);
		return r;
	}
	request->pool = pool;
	request->meta.done = finish;
	request->meta.context = request;
	server->on_way++;
	server->is_dirty = true;
	r = ts_meta_submit(&server->meta, &request->meta);
	if (r < 0) {
		server->on_way--;
		ts_breaker_returned(&server->breaker, request->ticket);
	}
	return r;
}

int ts_pool_submit(struct ts_pool *pool, struct ts_pool_request *request)
{
	request->server = ts_pool_server(pool, request->meta.key);
	request->is_second = false;
	return submit(pool, request);
}

bool ts_pool_is_busy(struct ts_pool *pool, const char *key, uint32_t most)
{
	return pool->count > 1 && pool->servers[ts_pool_server(pool, key)].on_way >= most;
}

bool ts_pool_is_probed(struct ts_pool *pool, const char *key)
{
	return ts_breaker_is_probed(&pool->servers[ts_pool_server(pool, key)].breaker);
}

/* ---- the loop --------------------------------------------------------------------------- */

static void step_server(struct ts_pool *pool, struct server *server)
{
	server->is_dirty = false;
	if (ts_meta_step(&server->meta) < 0)
		leave(pool, server);
}

void ts_pool_flush(struct ts_pool *pool)
{
	/* From behind, as one that leaves is replaced by the last one. */
	for (uint32_t i = pool->active_count; i-- > 0;) {
		struct server *server = &pool->servers[pool->active[i]];
		if (!server->is_dirty)
			continue;
		server->is_dirty = false;
		if (ts_meta_send(&server->meta) < 0)
			leave(pool, server);
	}
}

uint32_t ts_pool_events(struct ts_pool *pool, struct pollfd fds[TS_CLUSTER_SERVERS])
{
	for (uint32_t i = 0; i < pool->active_count; i++) {
		struct server *server = &pool->servers[pool->active[i]];
		bool to_write = ts_meta_wants_to_write(&server->meta);
		fds[i] = (struct pollfd){.fd = server->link.fd,
			.events = ts_link_events(&server->link, to_write)};
	}
	return pool->active_count;
}

void ts_pool_step(struct ts_pool *pool, const struct pollfd *fds, uint32_t count)
{
	uint64_t now = ts_now_ns();

	for (uint32_t i = pool->active_count; i-- > 0;) {
		struct server *server = &pool->servers[pool->active[i]];
		bool is_ready = i < count && fds[i].fd == server->link.fd && fds[i].revents;
		if (is_ready || server->is_dirty || now >= ts_meta_deadline(&server->meta))
			step_server(pool, server);
	}
	give_back_finished(pool);
}

uint64_t ts_pool_deadline(const struct ts_pool *pool)
{
	uint64_t until = pool->finished ? 0 : UINT64_MAX;

	for (uint32_t i = 0; i < pool->active_count; i++) {
		const struct server *server = &pool->servers[pool->active[i]];
		until = ts_min_u64(
			until, server->is_dirty ? 0 : ts_meta_deadline(&server->meta));
	}
	return until;
}
