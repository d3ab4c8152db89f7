/* SPDX-License-Identifier: MIT */
/* Looking names up: leader/peer/resolve.h explains it. */
#include "leader/peer/resolve.h"

#include "shim/sys.h"

#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

/* Where the child has its end of the pipe; what it closes without close_range(2). */
#define CHILD_FD 3
#define MANY_FDS 1024

/** What the child writes, each in one piece. */
struct found {
	uint32_t server, address_bytes;
	struct sockaddr_storage address;
};
static_assert(sizeof(struct found) <= PIPE_BUF, "comes whole or not at all");

static bool look_up(const struct ts_cluster_server *server, int flags, struct found *ret_found)
{
	struct addrinfo *list = NULL, hints = {.ai_socktype = SOCK_STREAM,
					      .ai_flags = flags | AI_NUMERICSERV};
	char port[8];

	(void)snprintf(port, sizeof(port), "%u", server->port);
	if (getaddrinfo(server->host, port, &hints, &list) != 0)
		return false;
	bool fits = list->ai_addrlen <= sizeof(ret_found->address);
	if (fits) {
		memset(ret_found, 0, sizeof(*ret_found));
		memcpy(&ret_found->address, list->ai_addr, list->ai_addrlen);
		ret_found->address_bytes = list->ai_addrlen;
	}
	freeaddrinfo(list);
	return fits;
}

/* ---- the child -------------------------------------------------------------------------- */

static void close_others(int fd)
{
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)signal(SIGPIPE, SIG_DFL);
	if (fd != CHILD_FD) {
		(void)dup2(fd, CHILD_FD);
		(void)close(fd);
	}
	if (syscall(SYS_close_range, CHILD_FD + 1, ~0U, 0) == 0)
		return;
	for (int i = CHILD_FD + 1; i < MANY_FDS; i++)
		(void)close(i);
}

static _Noreturn void be_child(struct ts_resolver *resolver, int fd, int parent)
{
	struct found found;

	close_others(fd);
	if (getppid() != parent)
		_exit(1);
	for (uint32_t i = 0; i < resolver->count; i++) {
		if (ts_pool_has_address(resolver->pool, i) ||
			!look_up(&resolver->servers[i], 0, &found))
			continue;
		found.server = i;
		if (write(CHILD_FD, &found, sizeof(found)) < 0)
			_exit(1);
	}
	_exit(0);
}

static void start_child(struct ts_resolver *resolver)
{
	int pipe[2], parent = getpid();

	resolver->again_at = ts_now_ns() + TS_RESOLVE_AGAIN_NS;
	if (pipe2(pipe, O_CLOEXEC) < 0)
		return;
	int child = fork();
	if (child == 0)
		be_child(resolver, pipe[1], parent);
	ts_sys_close(pipe[1]);
	if (child < 0) {
		ts_sys_close(pipe[0]);
		return;
	}
	(void)fcntl(pipe[0], F_SETFL, O_NONBLOCK);
	resolver->fd = pipe[0];
	resolver->child = child;
	resolver->again_at = UINT64_MAX;
}

/* ---- the parent ------------------------------------------------------------------------- */

static bool has_all(const struct ts_resolver *resolver)
{
	for (uint32_t i = 0; i < resolver->count; i++)
		if (!ts_pool_has_address(resolver->pool, i))
			return false;
	return true;
}

void ts_resolver_init(struct ts_resolver *resolver, struct ts_pool *pool,
	const struct ts_cluster_server *servers, uint32_t count)
{
	struct found found;

	*resolver = (struct ts_resolver){
		.pool = pool,
		.servers = servers,
		.count = count,
		.fd = -1,
		.again_at = UINT64_MAX,
	};
	for (uint32_t i = 0; i < count; i++)
		if (look_up(&servers[i], AI_NUMERICHOST, &found))
			ts_pool_set_address(pool, i, (struct sockaddr *)&found.address,
				found.address_bytes);
	if (!has_all(resolver))
		start_child(resolver);
}

void ts_resolver_finish(struct ts_resolver *resolver)
{
	if (resolver->fd < 0)
		return;
	ts_sys_close(resolver->fd);
	resolver->fd = -1;
	/* Killed, it ends at once, whatever it waits for. */
	(void)kill(resolver->child, SIGKILL);
	while (waitpid(resolver->child, NULL, 0) < 0 && errno == EINTR)
		;
}

void ts_resolver_step(struct ts_resolver *resolver)
{
	struct found found;
	int64_t n;

	if (resolver->fd < 0) {
		if (ts_now_ns() >= resolver->again_at)
			start_child(resolver);
		return;
	}
	while ((n = ts_sys_read(resolver->fd, &found, sizeof(found))) == sizeof(found))
		ts_pool_set_address(resolver->pool, found.server,
			(struct sockaddr *)&found.address, found.address_bytes);
	if (n == -EAGAIN || n == -EINTR)
		return;
	ts_resolver_finish(resolver);
	if (!has_all(resolver))
		resolver->again_at = ts_now_ns() + TS_RESOLVE_AGAIN_NS;
}
