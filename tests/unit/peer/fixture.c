/* SPDX-License-Identifier: MIT */
/* The scripted server: tests/unit/peer/fixture.h explains it. */
#include "fixture.h"

#include "shim/sys.h"
#include "tests/unit/clock.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

int64_t fixture_read_link(struct ts_link *link, void *to, size_t bytes)
{
	ssize_t n = recv(link->fd, to, bytes, MSG_DONTWAIT);

	return n < 0 ? -errno : n;
}

static int64_t read_both(
	struct ts_link *link, void *to, size_t bytes, void *behind, size_t behind_bytes)
{
	struct iovec parts[] = {{to, bytes}, {behind, behind_bytes}};
	struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
	ssize_t n = recvmsg(link->fd, &message, MSG_DONTWAIT);

	return n < 0 ? -errno : n;
}

int64_t fixture_write_link(struct ts_link *link, const void *from, size_t bytes, bool more)
{
	ssize_t n = send(link->fd, from, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);

	return n < 0 ? -errno : n;
}

/* Whether the server has read something. */
static bool listen_to_client(struct scene *scene)
{
	static char bytes[1 << 16];
	ssize_t n =
		scene->is_deaf ? 0 : recv(scene->server, bytes, sizeof(bytes), MSG_DONTWAIT);

	if (n <= 0)
		return false;
	if (scene->heard < sizeof(scene->heard_text) - 1) {
		size_t part = sizeof(scene->heard_text) - 1 - scene->heard;
		memcpy(scene->heard_text + scene->heard, bytes,
			(size_t)n < part ? (size_t)n : part);
	}
	scene->heard += (size_t)n;
	return true;
}

/* The bytes of a step, as many as the client takes, or the next one. */
static void send_step(struct scene *scene, const struct step *step)
{
	size_t length = step->text ? strlen(step->text) : 0;
	size_t all = length * (step->times ? step->times : 1);

	while (scene->done < all) {
		size_t at = scene->done % length;
		ssize_t n = send(scene->server, step->text + at, step->drips ? 1 : length - at,
			MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n <= 0)
			return;
		scene->done += (size_t)n;
		if (step->drips && scene->done < all)
			return;
	}
	if (step->closes)
		shutdown(scene->server, SHUT_RDWR);
	scene->at++;
	scene->done = 0;
}

static int wait_link(struct ts_link *link, bool to_write, uint64_t until_ns)
{
	struct scene *scene = (struct scene *)((char *)link - offsetof(struct scene, link));
	struct pollfd one = {.fd = link->fd, .events = ts_link_events(link, to_write)};
	uint64_t left = until_ns - ts_min_u64(until_ns, ts_now_ns()), pause = 0;

	cr_assert(lt(uint, scene->waits++, 100000), "the client waits for ever");
	if (left == 0)
		return -ETIMEDOUT;
	if (listen_to_client(scene) || poll(&one, 1, 0) > 0)
		return 0;
	const struct step *step = scene->at < scene->count ? &scene->steps[scene->at] : NULL;
	if (step && (scene->done == 0 || step->drips))
		pause = step->after_ns - ts_min_u64(step->after_ns, scene->waited_ns);
	if (!step || pause >= left) {
		cr_assert(ne(u64, until_ns, UINT64_MAX), "nothing to wait for");
		scene->waited_ns += left;
		clock_pass(left);
		return -ETIMEDOUT;
	}
	clock_pass(pause);
	scene->waited_ns = 0;
	send_step(scene, step);
	return 0;
}

void scene_begin(struct scene *scene, const char *token)
{
	static const struct ts_link_ops ops = {.read = fixture_read_link,
		.read_both = read_both,
		.write = fixture_write_link,
		.wait = wait_link};
	int pair[2];

	clock_begin();
	memset(scene, 0, sizeof(*scene));
	cr_assert(eq(int, socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0));
	scene->link = (struct ts_link){
		.ops = &ops,
		.state = TS_LINK_UP,
		.fd = pair[0],
		.read_wants = POLLIN,
		.write_wants = POLLOUT,
	};
	scene->server = pair[1];
	cr_assert(eq(int,
		ts_meta_init(
			&scene->meta, &scene->link, "job", token, OPAQUE, ts_now_ns() + SECOND),
		0));
}

void scene_end(struct scene *scene)
{
	ts_meta_finish(&scene->meta, -ECANCELED);
	close(scene->link.fd);
	close(scene->server);
	clock_end();
}

void scene_play(struct scene *scene, const struct step *steps, size_t count)
{
	scene->steps = steps;
	scene->count = count;
	scene->at = scene->done = 0;
}

struct ts_meta_request scene_get(const char *key, void *into, size_t room)
{
	return (struct ts_meta_request){
		.kind = TS_META_GET,
		.key = key,
		.parts = {{.iov_base = into, .iov_len = room}},
		.until_ns = ts_now_ns() + SECOND,
	};
}

struct ts_meta_request scene_set(const char *key, const void *from, size_t bytes)
{
	struct ts_meta_request request = scene_get(key, NULL, 0);

	request.kind = TS_META_SET;
	memcpy(&request.parts[0].iov_base, &from, sizeof(from));
	request.parts[0].iov_len = bytes;
	return request;
}

int scene_do(struct scene *scene, struct ts_meta_request *request)
{
	cr_assert(eq(int, ts_meta_submit(&scene->meta, request), 0));
	return ts_meta_wait(&scene->meta, request);
}
