/* SPDX-License-Identifier: MIT */
/*
 * A program of the identity tests: says who it is and for whom it works.
 *
 *	unit_shim_program                       prints "<self> <job>" on stdout
 *	unit_shim_program parent <arguments>    runs itself with <arguments>, prints its own
 *	                                        self, then what the child prints
 */
#include "shim/identity.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int say(void)
{
	printf("%llu %llu\n", (unsigned long long)ts_identity_self(),
		(unsigned long long)ts_identity_job());
	return 0;
}

static int run(char **argv)
{
	int status = 1;

	printf("%llu ", (unsigned long long)ts_identity_self());
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		execv("/proc/self/exe", argv);
		_exit(127);
	}
	(void)waitpid(pid, &status, 0);
	return status;
}

int main(int argc, char **argv)
{
	ts_identity_init();
	if (argc > 2 && strcmp(argv[1], "parent") == 0)
		return run(argv + 1);
	return say();
}
