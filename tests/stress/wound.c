/* SPDX-License-Identifier: MIT */
/* Victims and their wounds. */
#include "wound.h"

#include "load.h"
#include "shim/atomic.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PEERS_MAX 8

/* After this one that does not end is killed. */
#define END_MS 60000

/* A guard: a busy machine comes to its points later. */
#define PATIENT_MS 30000

static bool patient;

/* How long peers go on after something has happened. */
#define AFTER_US 60000u

int wound_mode;
int wound_visit = 1;

void *wound_begin(
	int argc, char **argv, const char *name, size_t bytes, char group[32], int *ret_status)
{
	struct ts_store *probe;

	for (int o = getopt(argc, argv, "ksc:"); o != -1; o = getopt(argc, argv, "ksc:")) {
		if (o == 'c')
			wound_visit = atoi(optarg);
		else
			wound_mode = o;
	}
	if (wound_mode != 'k' && wound_mode != 's') {
		fprintf(stderr, "usage: %s -k|-s [-c visit] [name...]\n", argv[0]);
		*ret_status = 1;
		return NULL;
	}
	snprintf(group, 32, "%s-%d", name, (int)getpid());
	void *shared =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED || load_attach(group, WOUND_RING_BYTES, &probe) < 0) {
		fprintf(stderr, "no shared memory\n");
		*ret_status = 77;
		return NULL;
	}
	ts_store_detach(probe);
	return shared;
}

void wound_arm(const char *point)
{
	char setting[96];

	snprintf(setting, sizeof(setting), "%s:%d", point, wound_visit);
	setenv(wound_mode == 'k' ? "TSSHIM_TEST_KILL" : "TSSHIM_TEST_STOP", setting, 1);
}

bool wound_reached(int status)
{
	return wound_mode == 'k' ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL
				 : WIFSTOPPED(status);
}

pid_t wound_start(int (*run)(int argument), int argument)
{
	fflush(stderr);
	pid_t pid = fork();
	if (pid == 0)
		_exit(run(argument));
	return pid;
}

bool wound_wait(pid_t pid, int ms, int *ret_status)
{
	for (int i = 0; i <= ms; i++) {
		if (waitpid(pid, ret_status, WNOHANG | WUNTRACED) == pid)
			return true;
		usleep(1000);
	}
	return false;
}

bool wound_ended_well(pid_t pid, bool ended, int status, const char *who, bool unattached)
{
	if (ended && WIFEXITED(status) &&
		(WEXITSTATUS(status) == 0 ||
			(unattached && WEXITSTATUS(status) == EXIT_UNATTACHED)))
		return true;
	fprintf(stderr, "%s %s, status %x\n", who, ended ? "ended" : "does not end",
		(unsigned)status);
	if (!ended || WIFSTOPPED(status)) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	return false;
}

bool wound_ends_well(pid_t pid, int ms, const char *who, bool unattached)
{
	int status = 0;
	bool ended = wound_wait(pid, ms, &status);

	return wound_ended_well(pid, ended, status, who, unattached);
}

static void start_peers(const struct wound_peers *peers, pid_t pids[WOUND_PEERS])
{
	for (int i = 0; i < WOUND_PEERS; i++)
		pids[i] = wound_start(peers->run, i);
}

/* When @victim is in, so that it is what makes or recovers the group. Whether it ended or
 * stopped within @reach_ms after that. */
static bool start_beside(const struct wound_peers *peers, pid_t victim, int reach_ms,
	pid_t pids[WOUND_PEERS], int *ret_status)
{
	bool happened = false;

	for (int i = 0; i < 2000 && !happened && !ts_load_acquire(&peers->orders->attached);
		i++)
		happened = wound_wait(victim, 0, ret_status);
	start_peers(peers, pids);
	return happened || wound_wait(victim, patient ? PATIENT_MS : reach_ms, ret_status);
}

static bool end_peers(const struct wound_peers *peers, const pid_t pids[WOUND_PEERS])
{
	bool right = true;

	ts_write_release(&peers->orders->stop_peers, 1);
	for (int i = 0; i < WOUND_PEERS; i++)
		right &= wound_ends_well(pids[i], peers->end_ms, "a peer", wound_mode == 's');
	ts_write_release(&peers->orders->stop_peers, 0);
	return right;
}

/* After @victim died or stopped: do the others go on, and does a woken one harm them? */
static bool survivors_go_on(
	const struct wound_peers *peers, pid_t victim, const pid_t pids[WOUND_PEERS])
{
	pid_t others[WOUND_PEERS];

	usleep(AFTER_US);
	bool right = end_peers(peers, pids);
	if (wound_mode == 'k')
		return right;
	start_peers(peers, others);
	usleep(AFTER_US);
	kill(victim, SIGCONT);
	usleep(AFTER_US);
	ts_write_release(&peers->orders->finish_victim, 1);
	right &= wound_ends_well(victim, peers->end_ms, "the woken victim", true);
	return end_peers(peers, others) && right;
}

int wound_among_peers(
	const struct wound_peers *peers, pid_t victim, int reach_ms, bool unattached)
{
	pid_t pids[WOUND_PEERS];
	int status = 0;
	bool happened = start_beside(peers, victim, reach_ms, pids, &status);
	bool peers_run = happened, right = true;

	if (!happened) {
		/* Some steps are gone through at the end. */
		right = end_peers(peers, pids);
		ts_write_release(&peers->orders->finish_victim, 1);
		happened = wound_wait(victim, peers->end_ms, &status);
	}
	if (happened && wound_reached(status)) {
		if (!peers_run)
			start_peers(peers, pids);
		return survivors_go_on(peers, victim, pids) && right ? 1 : -1;
	}
	if (peers_run)
		right = end_peers(peers, pids);
	right &= wound_ended_well(victim, happened, status, "the victim", unattached);
	return right ? 0 : -1;
}

bool wound_in_some_situation(const char *name, int index, int situations,
	int (*try_situation)(int situation, int point))
{
	/* The second time around with patience, unless it need not be reached. */
	for (int i = 0; i < (wound_visit > 1 ? 1 : 2) * situations; i++) {
		patient = i >= situations;
		int result = try_situation(i % situations, index);
		if (result > 0)
			return true;
		if (result < 0) {
			fprintf(stderr, "%s: failed (situation %d)\n", name, i % situations);
			return false;
		}
	}
	fprintf(stderr, "%s: never reached\n", name);
	return wound_visit > 1;
}

bool wound_beside_peers(
	int (*run_victim)(int point), int point, int (*run_peer)(int number), int peers)
{
	pid_t victim = wound_start(run_victim, point), started[PEERS_MAX];
	int status = 0;
	bool ended = wound_wait(victim, END_MS, &status), good = true;

	if (!ended || !wound_reached(status)) {
		wound_ended_well(
			victim, ended, status, "a victim that did not get there", false);
		return false;
	}
	for (int i = 0; i < peers; i++)
		started[i] = wound_start(run_peer, i);
	for (int i = 0; i < peers; i++)
		good &= wound_ends_well(started[i], END_MS, "a peer", false);
	if (wound_mode == 's') {
		kill(victim, SIGCONT);
		good &= wound_ends_well(victim, END_MS, "the woken victim", false);
	}
	return good && wound_ends_well(wound_start(run_peer, peers), END_MS, "the last", false);
}

static bool is_chosen(const char *point, char *const *names)
{
	bool any = *names != NULL;

	for (; *names; names++)
		if (strcmp(*names, point) == 0)
			return true;
	return !any;
}

int wound_each(const char *const *points, size_t count, char *const *names,
	bool (*try_point)(int point))
{
	int tried = 0, failed = 0;

	for (int i = 0; i < (int)count; i++) {
		if (!is_chosen(points[i], names))
			continue;
		tried++;
		if (try_point(i))
			continue;
		fprintf(stderr, "FAILED at %s\n", points[i]);
		failed++;
	}
	fprintf(stderr, "%d points tried, %d failed\n", tried, failed);
	return failed != 0 || tried == 0;
}
