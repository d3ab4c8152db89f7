/* SPDX-License-Identifier: MIT */
/* Records whose every byte follows from their key, so that every byte read can be checked. */
#include "load.h"
#include "leader/group/ledger.h"
#include "leader/group/store_private.h"
#include "shim/atomic.h"
#include "shim/identity.h"
#include "shim/sys.h"
#include "wound.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

uint64_t load_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static struct ts_key key_of(uint64_t id)
{
	uint64_t state = id * UINT64_C(0x9e3779b97f4a7c15) + 1;
	struct ts_key key = {.lo = load_random(&state)};

	key.hi = load_random(&state);
	return key;
}

/* In whole words, the same for everybody who knows the key. */
static uint64_t bytes_of(const struct load *load, const struct ts_key *key)
{
	uint64_t bytes = 4096 + key->hi % (load->size_limit - 4096 + 1);

	return (bytes + (key->lo >> 32 & 7 ? 0 : load->run_bytes)) & ~UINT64_C(7);
}

static void fill(uint64_t *words, uint64_t bytes, const struct ts_key *key)
{
	for (uint64_t i = 0; i < bytes / 8; i++)
		words[i] = (key->lo + i) * UINT64_C(0xd6e8feb86659fd93) ^ key->hi;
}

static bool is_right(const uint64_t *words, uint64_t bytes, const struct ts_key *key)
{
	uint64_t wrong = 0;

	for (uint64_t i = 0; i < bytes / 8; i++)
		wrong |= words[i] ^ ((key->lo + i) * UINT64_C(0xd6e8feb86659fd93) ^ key->hi);
	return wrong == 0;
}

/* What is published here is wanted. */
static void capture(struct ts_store *store)
{
	struct ts_dataset_row *row = ts_ledger_dataset(ts_store_ledger(store), LOAD_CAPTURED);

	ts_write_relaxed(&row->demands[TS_KIND_PIXELS].capture, 1);
}

int load_attach(const char *group, uint64_t ring_bytes, struct ts_store **ret_store)
{
	struct ts_attach_options options = {
		.ring_bytes = ring_bytes, .job = ts_process_id(getpid(), false)};
	enum ts_reason reason;

	snprintf(options.group, sizeof(options.group), "%s", group);
	int r = ts_store_attach(&options, ret_store, &reason);
	if (r == 0)
		capture(*ret_store);
	return r;
}

static bool produce(struct load *load, struct ts_take *take, const struct ts_key *key)
{
	uint64_t bytes = bytes_of(load, key);
	void *buffer;

	if (load_random(&load->random) % 16 == 0) {
		ts_claim_abandon(load->store, &take->claim);
		return true;
	}
	/* More than is needed now and then, as a producer that guesses would. */
	uint64_t extra = load_random(&load->random) % 4096;
	if (ts_claim_reserve(load->store, &take->claim, bytes + extra, &buffer) < 0) {
		load->counts.lost++;
		return true;
	}
	fill(buffer, bytes, key);
	if (!is_right(buffer, bytes, key)) {
		fprintf(stderr, "a reserved buffer changed under its producer\n");
		return false;
	}
	if (ts_claim_publish(load->store, &take->claim, bytes, 1000) < 0)
		load->counts.lost++;
	else
		load->counts.published++;
	return true;
}

static bool consume(struct load *load, struct ts_take *take, const struct ts_key *key)
{
	bool right = take->lease.bytes == bytes_of(load, key) &&
		     is_right(take->lease.data, take->lease.bytes, key);

	/* Twice, because what must not happen is that bytes change while they are leased. */
	right = right && is_right(take->lease.data, take->lease.bytes, key);
	ts_lease_release(load->store, &take->lease);
	load->counts.hits++;
	if (!right)
		fprintf(stderr, "wrong byte in a record\n");
	return right;
}

static void leave_a_ghost(struct load *load)
{
	struct ts_take take;
	struct ts_key key = key_of(load_random(&load->random));

	/* Nobody else asks for these keys, so the dataset is never captured. */
	ts_store_take(load->store, &key, LOAD_GHOSTS, TS_KIND_PIXELS, &take);
	if (take.verdict == TS_CLAIM)
		ts_claim_abandon(load->store, &take.claim);
}

bool load_operation(struct load *load)
{
	/* The product of two prefers low numbers: some keys are hot, some are evicted. */
	uint64_t a = load_random(&load->random) % load->keys;
	uint64_t b = load_random(&load->random) % load->keys;
	struct ts_key key = key_of(a * b / load->keys);
	uint64_t start = ts_now_ns();
	struct ts_take take;

	if (load_random(&load->random) % 8 == 0)
		leave_a_ghost(load);
	ts_store_take(load->store, &key, LOAD_CAPTURED, TS_KIND_PIXELS, &take);
	if (take.verdict == TS_BUSY)
		ts_store_wait(
			load->store, &key, LOAD_DEADLINE_NS, &(struct ts_patience){0}, &take);
	if (ts_now_ns() - start > LOAD_DEADLINE_NS + LOAD_SLACK_NS) {
		fprintf(stderr, "a wait took %.3f s\n", (double)(ts_now_ns() - start) / 1e9);
		return false;
	}
	switch (take.verdict) {
	case TS_HIT:
		return consume(load, &take, &key);
	case TS_CLAIM:
		return produce(load, &take, &key);
	case TS_PASS:
		load->counts.passed++;
		return true;
	case TS_BUSY:
		break;
	}
	fprintf(stderr, "still busy after the wait\n");
	return false;
}

bool load_pair_shares(struct ts_store *one, struct ts_store *other, uint64_t id)
{
	struct ts_key key = key_of(id);
	struct ts_take take;
	void *buffer;

	capture(one);
	ts_store_take(one, &key, LOAD_CAPTURED, TS_KIND_PIXELS, &take);
	if (take.verdict != TS_CLAIM) {
		fprintf(stderr, "fresh pair: no claim (%d, reason %d)\n", take.verdict,
			take.reason);
		return false;
	}
	int r = ts_claim_reserve(one, &take.claim, 8192, &buffer);
	if (r == 0) {
		fill(buffer, 8192, &key);
		r = ts_claim_publish(one, &take.claim, 8192, 1000);
	}
	if (r < 0) {
		fprintf(stderr, "fresh pair: cannot publish: %s\n", strerror(-r));
		return false;
	}
	ts_store_take(other, &key, LOAD_CAPTURED, TS_KIND_PIXELS, &take);
	if (take.verdict != TS_HIT) {
		fprintf(stderr, "fresh pair: no hit (%d)\n", take.verdict);
		return false;
	}
	bool right = take.lease.bytes == 8192 && is_right(take.lease.data, 8192, &key);
	ts_lease_release(other, &take.lease);
	if (!right)
		fprintf(stderr, "fresh pair: wrong byte\n");
	return right;
}

/* Remove the group's ledger; false when anything else of the group is there. */
static bool only_ledger_is_left(const char *group)
{
	char prefix[TS_PATH_BYTES], path[400];
	bool clean = true;
	DIR *directory = opendir(TS_SHM_DIR);

	if (!directory)
		return false;
	if (ts_object_path(path, TS_PATH_BYTES, group, "") < 0)
		return false;
	snprintf(prefix, sizeof(prefix), "%s", strrchr(path, '/') + 1);
	for (struct dirent *file = readdir(directory); file; file = readdir(directory)) {
		if (strncmp(file->d_name, prefix, strlen(prefix)) != 0)
			continue;
		if (strcmp(file->d_name + strlen(prefix), "ledger") != 0) {
			fprintf(stderr, "left behind: %s\n", file->d_name);
			clean = false;
		}
		snprintf(path, sizeof(path), "%s/%s", TS_SHM_DIR, file->d_name);
		unlink(path);
	}
	closedir(directory);
	return clean;
}

bool load_group_is_healthy(const char *group, uint64_t ring_bytes)
{
	struct ts_store *one = NULL, *other = NULL;
	int r = load_attach(group, ring_bytes, &one);

	if (r == 0)
		r = load_attach(group, ring_bytes, &other);
	if (r < 0)
		fprintf(stderr, "fresh pair: cannot attach: %s\n", strerror(-r));
	/* An id no load uses, and another one each time. */
	bool shares = r == 0 && load_pair_shares(one, other, ts_now_ns() | UINT64_C(1) << 63);
	ts_store_detach(other);
	ts_store_detach(one);
	return only_ledger_is_left(group) && shares;
}

/* Children that are disturbed at random. */

struct child {
	pid_t pid; /* 0: finished */
	bool stopped;
	uint64_t stopped_at;
};

static void spawn(const struct crowd *crowd, struct child *child, int number, uint64_t seed)
{
	fflush(stderr);
	child->stopped = false;
	child->pid = fork();
	if (child->pid == 0)
		_exit(crowd->run((uint32_t)number, seed));
}

/* Collect who ended; false when one of them found something wrong. */
static bool reap(const struct crowd *crowd, struct child *children)
{
	for (int i = 0; i < crowd->processes; i++) {
		int status;
		if (children[i].pid == 0 || waitpid(children[i].pid, &status, WNOHANG) <= 0)
			continue;
		children[i].pid = 0;
		if (WIFEXITED(status) &&
			(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == EXIT_UNATTACHED))
			continue;
		fprintf(stderr, "a child ended with status %x\n", (unsigned)status);
		return false;
	}
	return true;
}

static void disturb(const struct crowd *crowd, struct child *children, uint64_t *random)
{
	int number = (int)(load_random(random) % (uint64_t)crowd->processes);
	struct child *child = &children[number];
	uint64_t dice = load_random(random) % 8;

	if (child->pid == 0) {
		spawn(crowd, child, number, load_random(random));
	} else if (child->stopped) {
		kill(child->pid, SIGCONT);
		child->stopped = false;
	} else if (dice < 3) {
		kill(child->pid, SIGSTOP);
		child->stopped = true;
		child->stopped_at = ts_now_ns();
	} else if (dice < 5) {
		kill(child->pid, SIGKILL);
		waitpid(child->pid, NULL, 0);
		spawn(crowd, child, number, load_random(random));
	}
}

static void wake(const struct crowd *crowd, struct child *children)
{
	for (int i = 0; i < crowd->processes; i++) {
		if (!children[i].pid || !children[i].stopped ||
			ts_now_ns() - children[i].stopped_at < crowd->stop_ns)
			continue;
		kill(children[i].pid, SIGCONT);
		children[i].stopped = false;
	}
}

static bool finish(const struct crowd *crowd, struct child *children)
{
	uint64_t limit = ts_now_ns() + crowd->finish_ns;
	bool right = true, running = true;

	for (int i = 0; i < crowd->processes; i++) {
		if (children[i].pid)
			kill(children[i].pid, SIGCONT);
	}
	while (running && right && ts_now_ns() < limit) {
		right = reap(crowd, children);
		running = false;
		for (int i = 0; i < crowd->processes; i++)
			running |= children[i].pid != 0;
		usleep(2000);
	}
	for (int i = 0; i < crowd->processes; i++) {
		if (children[i].pid == 0)
			continue;
		fprintf(stderr, "child %d does not end\n", (int)children[i].pid);
		kill(children[i].pid, SIGKILL);
		waitpid(children[i].pid, NULL, 0);
		right = false;
	}
	return right;
}

static bool parse(struct crowd *crowd, int argc, char **argv)
{
	for (int o = getopt(argc, argv, "n:t:s:r:"); o != -1;
		o = getopt(argc, argv, "n:t:s:r:")) {
		int value = o == '?' ? 0 : atoi(optarg);
		if (o == 'n')
			crowd->processes = value;
		else if (o == 't')
			crowd->threads = value;
		else if (o == 's')
			crowd->seconds = value;
		else if (o == 'r')
			crowd->seed = (uint64_t)value;
		else
			return false;
	}
	return crowd->processes >= 2 && crowd->processes <= crowd->most_processes &&
	       crowd->threads >= 1 && crowd->threads <= crowd->most_threads &&
	       crowd->seed != 0 && crowd->seconds > 0;
}

int crowd_begin(struct crowd *crowd, int argc, char **argv)
{
	struct ts_store *probe;

	if (!parse(crowd, argc, argv)) {
		fprintf(stderr, "usage: %s [-n 2..%d] [-t 1..%d] [-s seconds] [-r seed]\n",
			argv[0], crowd->most_processes, crowd->most_threads);
		return 1;
	}
	snprintf(crowd->group, sizeof(crowd->group), "%s-%d", crowd->name, (int)getpid());
	int r = load_attach(crowd->group, crowd->ring_bytes, &probe);
	if (r < 0) {
		fprintf(stderr, "no shared memory: %s\n", strerror(-r));
		return 77;
	}
	ts_store_detach(probe);
	return 0;
}

bool crowd_run(struct crowd *crowd)
{
	struct child children[CROWD_MAX] = {0};
	uint64_t random = crowd->seed;
	bool right = true;

	crowd->end_ns = ts_now_ns() + (uint64_t)crowd->seconds * 1000000000;
	for (int i = 0; i < crowd->processes; i++)
		spawn(crowd, &children[i], i, load_random(&random));
	while (right && ts_now_ns() < crowd->end_ns) {
		usleep(1000 + (useconds_t)(load_random(&random) % 20000));
		right = reap(crowd, children);
		wake(crowd, children);
		disturb(crowd, children, &random);
	}
	return finish(crowd, children) && right;
}
