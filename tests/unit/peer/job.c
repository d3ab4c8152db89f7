/* SPDX-License-Identifier: MIT */
/*
 * A job that asks the helper for other nodes (leader/mail/mail.h), for
 * tests/e2e/peer_helper.py.
 *
 *	peer-job GROUP
 *
 * It is a job of the group that has copies of files in shared memory, says "ready", then reads
 * commands, a line each, and says one line to each.  NAME stands for the content of a file:
 *
 *	fetch NAME BYTES MS [AT]  make a .part and ask for the bytes from AT on: "GOT equal",
 *	                          "GOT differs", "WON slot", the name of another answer or of
 *	                          an error
 *	fill                      what was won is made now: write it
 *	finish                    give the .part its name
 *	store | return            end what was won
 *	untouched                whether no byte of the .part was written
 *	settled                   whether all slots are free: "yes" or "no"
 *	helper                    process id of the helper, 0 none; then its last error
 *	table                     requests posted, without a slot, and left
 *	peer ROW                  name, state, error and all counters of a row
 *	cut                       the last .part has no byte any more
 *	key                       of what was asked for last, without a chunk
 *	sample NAME BYTES         ask for a sample: "GOT", or "WON" and made and handed over, or
 *	                          the name of another answer or of an error
 *	samples                   how many were looked at, not taken, and how often it went off
 */
#include "leader/files/stage_private.h"
#include "leader/mail/mail.h"
#include "shim/atomic.h"
#include "shim/identity.h"
#include "shim/sys.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CAPACITY (UINT64_C(1) << 30)

static struct ts_store *store;
static struct ts_stage *stage;
static struct ts_mail mail;

/* The file asked for last. */
static struct ts_mail_request request;
static char name[64], path[TS_STAGE_PATH], part[TS_STAGE_PATH];
static uint32_t slot;

static const char *const answers[] = {
#define TS_X(word, text) #word,
	TS_MAIL_ANSWERS(TS_X)
#undef TS_X
};

/* ---- files ------------------------------------------------------------------------------ */

static unsigned char byte_of(uint64_t *state)
{
	*state = *state * UINT64_C(6364136223846793005) + 1442695040888963407u;
	return (unsigned char)(*state >> 56);
}

/* The content of the file called @name, or whether it is there. */
static bool go_through(bool writes)
{
	uint64_t state = ts_hash64(name, strlen(name));
	uint64_t end = request.at + request.bytes;
	int fd = open(part, O_RDWR | O_CLOEXEC);
	bool is_equal = true;

	unsigned char *map =
		fd < 0 ? MAP_FAILED
		       : mmap(NULL, end, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (fd >= 0)
		close(fd);
	if (map == MAP_FAILED)
		return false;
	for (uint64_t i = request.at; i < end; i++) {
		unsigned char byte = byte_of(&state);
		is_equal = is_equal && (writes || map[i] == byte);
		if (writes)
			map[i] = byte;
	}
	/* What lies in front of it is nobody's. */
	for (uint64_t i = 0; i < request.at && !writes; i++)
		is_equal = is_equal && map[i] == 0;
	munmap(map, end);
	return is_equal;
}

static const char *is_untouched(void)
{
	uint64_t left = request.at + request.bytes, at = 0;
	char bytes[4096];
	int fd = open(part, O_RDONLY | O_CLOEXEC);
	bool is_zero = fd >= 0;

	while (is_zero && at < left) {
		int64_t n = ts_sys_pread(fd, bytes, sizeof(bytes), at);
		is_zero = n > 0;
		for (int64_t i = 0; i < n; i++)
			is_zero = is_zero && bytes[i] == 0;
		at += n > 0 ? (uint64_t)n : 0;
	}
	if (fd >= 0)
		close(fd);
	return is_zero ? "yes" : "no";
}

static int make_part(uint64_t bytes)
{
	static uint64_t count;
	struct stat st;

	request.copy = (struct ts_hash128){.lo = ++count, .hi = (uint64_t)getpid()};
	ts_stage_path_with(stage->index.stem, request.copy, path);
	memcpy(part, path, strlen(path));
	memcpy(part + strlen(path), ".part", sizeof(".part"));
	int fd = open(part, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	int r = fd < 0 ? -errno : ftruncate(fd, (off_t)bytes) < 0 ? -errno : 0;
	if (r == 0 && fstat(fd, &st) == 0)
		request.inode = st.st_ino;
	if (fd >= 0)
		close(fd);
	return r;
}

/* ---- samples ---------------------------------------------------------------------------- */

/* A record in the ring, as if it had been made here. */
static int make_sample(const struct ts_key *key, uint64_t bytes)
{
	struct ts_take take;
	void *buffer;

	ts_store_want(store, TS_KIND_SAMPLE, true);
	ts_store_take(store, key, 0, TS_KIND_SAMPLE, &take);
	if (take.verdict != TS_CLAIM)
		return -EEXIST;
	int r = ts_claim_reserve(store, &take.claim, bytes, &buffer);
	if (r < 0)
		return r;
	memset(buffer, 7, bytes);
	return ts_claim_publish(store, &take.claim, bytes, 1000);
}

/* Of @bytes where no node has it. */
static const char *seek_sample(const char *what, uint64_t bytes)
{
	struct ts_hash128 hash = ts_hash128(what, strlen(what));
	const struct ts_key key = {.lo = hash.lo, .hi = hash.hi};
	struct ts_errand errand = {.state = TS_ERRAND_NONE};
	enum ts_reason reason;

	request = (struct ts_mail_request){.kind = TS_MAIL_SAMPLE, .name = hash};
	int r = ts_errand_ask(&errand, &mail, &key, &reason);
	if (r == 0)
		do
			r = ts_errand_look(&errand, 1000000);
		while (r == -EINPROGRESS);
	if (r == TS_MAIL_SAYS_GOT)
		ts_errand_end(&errand, true);
	if (r < 0)
		return strerrorname_np(-r);
	if (r != TS_MAIL_SAYS_WON)
		return answers[r];
	r = make_sample(&key, bytes);
	if (r < 0) {
		ts_errand_drop(&errand);
		return strerrorname_np(-r);
	}
	ts_errand_made(&errand, UINT64_C(1000000000));
	return answers[TS_MAIL_SAYS_WON];
}

/* ---- commands --------------------------------------------------------------------------- */

static const char *fetch(const char *what, uint64_t bytes, uint64_t ms, uint64_t at)
{
	static char line[64];

	snprintf(name, sizeof(name), "%s", what);
	request = (struct ts_mail_request){
		.kind = TS_MAIL_FETCH,
		.name = ts_hash128(name, strlen(name)),
		.at = at,
		.bytes = bytes,
	};
	int r = make_part(at + bytes);
	request.until_ns = ts_now_ns() + ms * 1000000;
	if (r == 0)
		r = ts_mail_ask(&mail, &request, &slot);
	if (r < 0)
		return strerrorname_np(-r);
	if (r == TS_MAIL_SAYS_WON) {
		snprintf(line, sizeof(line), "WON %u", slot);
		return line;
	}
	if (r != TS_MAIL_SAYS_GOT)
		return answers[r];
	return go_through(false) ? "GOT equal" : "GOT differs";
}

static const char *are_settled(void)
{
	for (uint32_t i = 0; i < TS_MAIL_SLOTS; i++)
		if (ts_load_acquire(&mail.table->slots[i].owner) != 0)
			return "no";
	return "yes";
}

static void say_peer(uint32_t index)
{
	static const char *const states[] = {"unused", "open", "shut"};
	const struct ts_mail_peer *row = &mail.table->peers[index % TS_MAIL_PEERS];
	uint64_t error = ts_load_relaxed(&row->error);

	printf("%s %s %s", (const char *)row->name, states[ts_load_relaxed(&row->state) % 3],
		error ? strerrorname_np((int)error) : "0");
#define TS_X(id, field, text)      \
	printf(" " #field "=%llu", \
		(unsigned long long)ts_load_relaxed(&row->counters[TS_MAIL_COUNT_##id]));
	TS_MAIL_COUNTERS(TS_X)
#undef TS_X
	puts("");
}

static void say_helper(void)
{
	uint64_t helper = ts_load_acquire(&mail.table->helper);
	uint64_t error = ts_load_relaxed(&mail.table->error);

	printf("%d %s\n", ts_process_is_alive(helper) ? TS_PROCESS_PID(helper) : 0,
		error ? strerrorname_np((int)error) : "0");
}

static void say_key(void)
{
	bool is_sample = request.kind == TS_MAIL_SAMPLE;

	printf("%s:%016llx%016llx%s\n", is_sample ? "s1" : "f1",
		(unsigned long long)request.name.hi, (unsigned long long)request.name.lo,
		is_sample ? "" : ".0");
}

static void say_samples(void)
{
	const struct ts_mail_use *use = &mail.table->use;

	printf("%llu %llu %llu\n", (unsigned long long)ts_load_relaxed(&use->looked),
		(unsigned long long)ts_load_relaxed(&use->unused),
		(unsigned long long)ts_load_relaxed(&use->times_unused));
}

static void say_table(void)
{
	printf("posted=%llu unposted=%llu left=%llu\n",
		(unsigned long long)ts_load_relaxed(&mail.table->posted),
		(unsigned long long)ts_load_relaxed(&mail.table->unposted),
		(unsigned long long)ts_load_relaxed(&mail.table->left));
}

static const char *perform(char *line)
{
	char what[64];
	unsigned long long bytes, ms, at = 0;
	unsigned row;

	if (sscanf(line, "fetch %63s %llu %llu %llu", what, &bytes, &ms, &at) >= 3)
		return fetch(what, bytes, ms, at);
	if (sscanf(line, "sample %63s %llu", what, &bytes) == 2)
		return seek_sample(what, bytes);
	if (sscanf(line, "peer %u", &row) == 1) {
		say_peer(row);
		return NULL;
	}
	if (strcmp(line, "key") == 0) {
		say_key();
		return NULL;
	}
	if (strcmp(line, "samples") == 0) {
		say_samples();
		return NULL;
	}
	if (strcmp(line, "table") == 0) {
		say_table();
		return NULL;
	}
	if (strcmp(line, "helper") == 0) {
		say_helper();
		return NULL;
	}
	if (strcmp(line, "fill") == 0)
		return go_through(true) ? "ok" : "cannot";
	if (strcmp(line, "finish") == 0)
		return rename(part, path) == 0 ? "ok" : "cannot";
	if (strcmp(line, "cut") == 0)
		return truncate(part, 0) == 0 ? "ok" : "cannot";
	if (strcmp(line, "untouched") == 0)
		return is_untouched();
	if (strcmp(line, "settled") == 0)
		return are_settled();
	if (strcmp(line, "store") == 0)
		ts_mail_store(&mail, slot);
	else if (strcmp(line, "return") == 0)
		ts_mail_return(&mail, slot);
	else
		return "what?";
	return "ok";
}

/* ---- the program ------------------------------------------------------------------------ */

static int join(const char *group)
{
	uint64_t id = ts_process_id(getpid(), false);
	struct ts_attach_options options = {.ring_bytes = UINT64_C(64) << 20, .job = id};
	enum ts_reason reason;

	snprintf(options.group, sizeof(options.group), "%s", group);
	int r = ts_store_attach(&options, &store, &reason);
	if (r == 0)
		r = ts_ledger_find_job(ts_store_ledger(store), id);
	if (r >= 0)
		r = ts_stage_attach(store, group, NULL, CAPACITY, &stage);
	if (r >= 0)
		r = ts_mail_attach(store, &mail);
	return r < 0 ? r : ts_mail_attach_places(store, &mail);
}

int main(int argc, char **argv)
{
	char line[256];
	int r = argc == 2 ? join(argv[1]) : -EINVAL;

	puts(r < 0 ? strerrorname_np(-r) : "ready");
	fflush(stdout);
	while (r == 0 && fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = '\0';
		const char *said = perform(line);
		if (said)
			puts(said);
		fflush(stdout);
	}
	if (r == 0)
		ts_ledger_end_job(ts_store_ledger(store), ts_process_id(getpid(), false));
	ts_store_detach(store);
	return r < 0;
}
