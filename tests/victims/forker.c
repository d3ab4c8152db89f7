/* SPDX-License-Identifier: MIT */
/*
 * forker FILE...: decode before and after every way to make a process, in parent and child.
 * The program runs itself with "child" as first argument for the ways that need an exec.
 */
#include "victim.h"

#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static void decode_all(const char *who, int count, char **paths)
{
	for (int i = 0; i < count; i++) {
		struct victim_input input;
		struct victim_errors errors;
		uint64_t hash = 0;
		victim_input_load(&input, paths[i]);
		int r = victim_decode_memory(&input, &errors, &hash);
		printf("%s %s %016llx %s\n", who, victim_base_name(paths[i]),
			(unsigned long long)hash, r ? errors.text : "");
		victim_input_free(&input);
	}
	fflush(stdout);
}

static void reap(const char *how, pid_t pid)
{
	int status = -1;
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		victim_usage(how);
	printf("%s ended with %d\n", how, status);
	fflush(stdout);
}

static void by_fork(int count, char **paths, bool again)
{
	pid_t pid = fork();
	if (pid == 0) {
		decode_all(again ? "grandparent-child" : "fork-child", count, paths);
		if (again)
			by_fork(count, paths, false);
		_exit(7);
	}
	reap("fork", pid);
}

static void by_vfork(char *self, char **paths)
{
	char *arguments[] = {self, (char *)"child", paths[0], NULL};
	pid_t pid = vfork();
	if (pid == 0) {
		execv(self, arguments);
		_exit(127);
	}
	reap("vfork", pid);
}

static void by_spawn(char *self, char **paths)
{
	char *arguments[] = {self, (char *)"child", paths[0], NULL};
	pid_t pid = -1;
	if (posix_spawn(&pid, self, NULL, NULL, arguments, environ) != 0)
		pid = -1;
	reap("posix_spawn", pid);
}

int main(int argc, char **argv)
{
	if (argc < 2)
		victim_usage("forker FILE...");
	if (strcmp(argv[1], "child") == 0) {
		decode_all("exec-child", argc - 2, argv + 2);
		return 3;
	}
	by_fork(argc - 1, argv + 1, false); /* before the first decode of the parent */
	decode_all("parent", argc - 1, argv + 1);
	by_fork(argc - 1, argv + 1, true);
	by_vfork(argv[0], argv + 1);
	decode_all("parent", argc - 1, argv + 1);
	by_spawn(argv[0], argv + 1);
	decode_all("parent", argc - 1, argv + 1);
	return 0;
}
