/* SPDX-License-Identifier: MIT */
/*
 * A job that gets values through the helper for other nodes, and says what that costs.  It is
 * linked with the library's own code: what is measured is what a staged file does between its
 * request and its bytes, without the file's own opening.
 *
 *	fetch GROUP               a job of the group, with copies in shared memory; "ready"
 *	stdin:  store COUNT BYTES stdout: one line of JSON: values made and handed over
 *	        fetch COUNT BYTES the same, got again into new files, one after the other
 *	        empty COUNT       the same, of requests for nothing: what asking costs
 *	        key NUMBER        by which the value is stored
 *	        helper            the process id of the helper, 0: none yet
 */
#include "common.h"

#include "leader/files/stage_private.h"
#include "leader/mail/mail.h"
#include "shim/atomic.h"
#include "shim/identity.h"
#include "shim/sys.h"

#include <fcntl.h>
#include <inttypes.h>
#include <unistd.h>

#define CAPACITY (UINT64_C(1) << 30)
#define WAIT_NS  UINT64_C(20000000000)

static struct ts_store *store;
static struct ts_stage *stage;
static struct ts_mail mail;

struct value {
	struct ts_mail_request request;
	char path[TS_STAGE_PATH], part[TS_STAGE_PATH + 8];
};

static struct ts_hash128 name_of(uint64_t number)
{
	return ts_hash128(&number, sizeof(number));
}

static void make_part(struct value *value, uint64_t number, uint64_t bytes)
{
	static uint64_t serial;
	struct stat st;

	value->request = (struct ts_mail_request){.kind = TS_MAIL_FETCH,
		.name = name_of(number),
		.copy = {.lo = ++serial, .hi = (uint64_t)getpid()},
		.bytes = bytes};
	ts_stage_path_with(stage->index.stem, value->request.copy, value->path);
	snprintf(value->part, sizeof(value->part), "%s.part", value->path);
	int fd = open(value->part, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, (off_t)bytes) < 0 || fstat(fd, &st) < 0 ||
		posix_fallocate(fd, 0, (off_t)bytes) != 0)
		die(value->part);
	close(fd);
	value->request.inode = st.st_ino;
}

static void write_bytes(const struct value *value, uint64_t number)
{
	unsigned char *bytes = malloc(value->request.bytes);
	int fd = open(value->part, O_WRONLY | O_CLOEXEC);

	for (uint64_t i = 0; i < value->request.bytes; i++)
		bytes[i] = (unsigned char)((i * 2654435761u + number) >> 8);
	if (fd < 0 ||
		pwrite(fd, bytes, value->request.bytes, 0) != (ssize_t)value->request.bytes)
		die(value->part);
	close(fd);
	free(bytes);
}

static int ask(struct value *value, uint32_t *ret_index)
{
	value->request.until_ns = ts_now_ns() + WAIT_NS;
	return ts_mail_ask(&mail, &value->request, ret_index);
}

static void store_all(uint64_t count, uint64_t bytes)
{
	struct value value;
	uint32_t index;

	for (uint64_t i = 0; i < count; i++) {
		make_part(&value, i, bytes);
		int r = ask(&value, &index);
		if (r == TS_MAIL_SAYS_WON) {
			write_bytes(&value, i);
			if (rename(value.part, value.path) < 0)
				die(value.part);
			ts_mail_store(&mail, index);
			/* The next question is answered behind it. */
			while (ts_load_acquire(&mail.table->slots[index].owner) != 0)
				usleep(100);
			unlink(value.path);
		} else {
			fprintf(stderr, "value %" PRIu64 ": answer %d\n", i, r);
			exit(1);
		}
	}
	puts("{}");
}

static void fetch_all(uint64_t count, uint64_t bytes)
{
	struct value *values = calloc(count, sizeof(*values));
	uint32_t index;

	for (uint64_t i = 0; i < count; i++)
		make_part(&values[i], i, bytes);
	uint64_t wall = now(CLOCK_MONOTONIC), cpu = now(CLOCK_PROCESS_CPUTIME_ID), got = 0;
	for (uint64_t i = 0; i < count; i++)
		got += ask(&values[i], &index) == TS_MAIL_SAYS_GOT;
	cpu = now(CLOCK_PROCESS_CPUTIME_ID) - cpu;
	wall = now(CLOCK_MONOTONIC) - wall;
	for (uint64_t i = 0; i < count; i++)
		unlink(values[i].part);
	free(values);
	printf("{\"wall_ns\": %" PRIu64 ", \"cpu_ns\": %" PRIu64 ", \"got\": %" PRIu64 "}\n",
		wall, cpu, got);
}

static void ask_for_nothing(uint64_t count)
{
	struct value value;
	uint32_t index;

	make_part(&value, 0, 1);
	value.request.bytes = 0;
	uint64_t wall = now(CLOCK_MONOTONIC), cpu = now(CLOCK_PROCESS_CPUTIME_ID), got = 0;
	for (uint64_t i = 0; i < count; i++)
		got += ask(&value, &index) == TS_MAIL_SAYS_UNFIT;
	cpu = now(CLOCK_PROCESS_CPUTIME_ID) - cpu;
	wall = now(CLOCK_MONOTONIC) - wall;
	unlink(value.part);
	printf("{\"wall_ns\": %" PRIu64 ", \"cpu_ns\": %" PRIu64 ", \"got\": %" PRIu64 "}\n",
		wall, cpu, got);
}

static void join(const char *group)
{
	uint64_t id = ts_process_id(getpid(), false);
	struct ts_attach_options options = {.ring_bytes = UINT64_C(64) << 20, .job = id};
	enum ts_reason reason;

	snprintf(options.group, sizeof(options.group), "%s", group);
	if (ts_store_attach(&options, &store, &reason) < 0 ||
		ts_ledger_find_job(ts_store_ledger(store), id) < 0 ||
		ts_stage_attach(store, group, NULL, CAPACITY, &stage) < 0 ||
		ts_mail_attach(store, &mail) < 0)
		die("joining the group");
}

int main(int argc, char **argv)
{
	char line[256];
	uint64_t count, bytes;

	if (argc != 2)
		die("usage: fetch GROUP");
	join(argv[1]);
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "store %" SCNu64 " %" SCNu64, &count, &bytes) == 2) {
			store_all(count, bytes);
		} else if (sscanf(line, "fetch %" SCNu64 " %" SCNu64, &count, &bytes) == 2) {
			fetch_all(count, bytes);
		} else if (sscanf(line, "empty %" SCNu64, &count) == 1) {
			ask_for_nothing(count);
		} else if (sscanf(line, "key %" SCNu64, &count) == 1) {
			struct ts_hash128 name = name_of(count);
			printf("\"f1:%016" PRIx64 "%016" PRIx64 ".0:0\"\n", name.hi, name.lo);
		} else {
			uint64_t helper = ts_load_acquire(&mail.table->helper);
			printf("%d\n",
				ts_process_is_alive(helper) ? TS_PROCESS_PID(helper) : 0);
		}
		fflush(stdout);
	}
	ts_ledger_end_job(ts_store_ledger(store), ts_process_id(getpid(), false));
	ts_store_detach(store);
	return 0;
}
