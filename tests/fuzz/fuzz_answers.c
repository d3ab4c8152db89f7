/* SPDX-License-Identifier: MIT */
/* What a server answers: any bytes, in pieces of any size, to requests of all kinds. */
#include "fuzz.h"

#include "leader/peer/meta.h"

#include <string.h>

#define REQUESTS 8
#define ROOM     48
#define GUARD    16

struct server {
	struct ts_link link;
	const uint8_t *data;
	size_t bytes, at, pieces;
};

static int64_t read_some(struct ts_link *link, void *to, size_t bytes)
{
	struct server *server = (struct server *)((char *)link - offsetof(struct server, link));
	size_t left = server->bytes - server->at;

	FUZZ_CHECK(bytes > 0);
	if (left == 0)
		return 0;
	/* Where it breaks depends on the bytes themselves. */
	size_t piece = server->data[server->at] % 23 + 1;
	if (server->pieces++ % 3 == 2)
		return -EAGAIN;
	piece = piece < left ? piece : left;
	piece = piece < bytes ? piece : bytes;
	memcpy(to, server->data + server->at, piece);
	server->at += piece;
	return (int64_t)piece;
}

static int64_t read_both(
	struct ts_link *link, void *to, size_t bytes, void *behind, size_t behind_bytes)
{
	int64_t n = read_some(link, to, bytes);

	if (n != (int64_t)bytes)
		return n;
	int64_t more = read_some(link, behind, behind_bytes);
	return more > 0 ? n + more : n;
}

static int64_t write_all(struct ts_link *link, const void *from, size_t bytes, bool more)
{
	FUZZ_CHECK(bytes > 0);
	return (int64_t)bytes;
}

static int never_wait(struct ts_link *link, bool to_write, uint64_t until_ns)
{
	return -ETIMEDOUT;
}

static const struct ts_link_ops ops = {
	.read = read_some, .read_both = read_both, .write = write_all, .wait = never_wait};

struct asked {
	struct ts_meta_request request;
	char place[2 * ROOM + 3 * GUARD];
};

static void ask(struct ts_meta *meta, struct asked *asked, unsigned number)
{
	static const enum ts_meta_kind kinds[] = {TS_META_GET, TS_META_GET, TS_META_SET,
		TS_META_DELETE, TS_META_LOOK, TS_META_NOTHING};

	memset(asked->place, '#', sizeof(asked->place));
	asked->request = (struct ts_meta_request){
		.kind = kinds[number % TS_ARRAY_SIZE(kinds)],
		.key = "key",
		.numbers = number % 2,
		.parts = {{asked->place + GUARD, number % 7 ? ROOM : 0},
			{asked->place + ROOM + 2 * GUARD, number % 3 ? ROOM : 1}},
		.until_ns = UINT64_MAX,
	};
	FUZZ_CHECK(ts_meta_submit(meta, &asked->request) == 0);
}

/* Not a byte beside the places, and as many in them as are told. */
static void check(const struct asked *asked)
{
	const struct ts_meta_request *request = &asked->request;
	size_t first = request->parts[0].iov_len, second = request->parts[1].iov_len;

	FUZZ_CHECK(request->result != -EINPROGRESS);
	for (size_t i = 0; i < GUARD; i++) {
		FUZZ_CHECK(asked->place[i] == '#');
		FUZZ_CHECK(asked->place[GUARD + first + i] == '#');
		FUZZ_CHECK(asked->place[ROOM + 2 * GUARD + second + i] == '#');
	}
	if (request->result == 0 && request->kind == TS_META_GET)
		FUZZ_CHECK(request->bytes <= first + second);
	if (request->result == 0 && request->kind == TS_META_SET)
		FUZZ_CHECK(asked->place[GUARD] == '#');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct ts_meta meta;
	static struct asked asked[REQUESTS];
	struct server server = {.link = {.ops = &ops, .fd = -1}, .data = data, .bytes = size};
	bool has_token = size > 0 && data[0] == 'S';
	int r = 0;

	FUZZ_CHECK(ts_meta_init(&meta, &server.link, "job", has_token ? "token" : NULL, 1,
			   UINT64_MAX) == 0);
	for (unsigned i = 0; i < REQUESTS; i++)
		ask(&meta, &asked[i], i);
	while (r == 0)
		r = ts_meta_step(&meta);
	FUZZ_CHECK(r < 0 && meta.state == TS_META_BROKEN && meta.error == r);
	FUZZ_CHECK(ts_meta_deadline(&meta) == UINT64_MAX && !meta.more);
	for (unsigned i = 0; i < REQUESTS; i++)
		check(&asked[i]);
	return 0;
}
