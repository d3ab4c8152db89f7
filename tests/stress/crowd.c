/* SPDX-License-Identifier: MIT */
/* Children that are disturbed at random. */
#include "crowd.h"

#include "load.h"
#include "wound.h"

#include "shim/sys.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

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

bool crowd_run(const struct crowd *crowd)
{
	struct child children[CROWD_MAX] = {0};
	uint64_t random = crowd->seed;
	bool right = true;

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
