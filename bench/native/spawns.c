/* SPDX-License-Identifier: MIT */
/*
 * What it takes to run short programs: each command of a list in turn, ROUNDS times, started
 * with posix_spawn(3), which does not copy this process.  The commands are the lines of LIST,
 * whose words tabs keep apart; words NAME=VALUE in front are added to the environment.  Prints
 * for each run the number of the command, and nanoseconds until it had ended, by the clock and
 * of CPU time.
 */
#include "common.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORDS_MAX       32
#define ENVIRONMENT_MAX 1024

extern char **environ;

struct command {
	char *words[WORDS_MAX + 1];
	char *environment[ENVIRONMENT_MAX + 1];
};

static void prepare(struct command *command, char *line)
{
	size_t words = 0, entries = 0;

	for (char *word = strtok(line, "\t"); word; word = strtok(NULL, "\t")) {
		if (words == 0 && strchr(word, '=') && entries < ENVIRONMENT_MAX)
			command->environment[entries++] = word;
		else if (words < WORDS_MAX)
			command->words[words++] = word;
	}
	for (char **entry = environ; *entry && entries < ENVIRONMENT_MAX; entry++)
		command->environment[entries++] = *entry;
}

static uint64_t nanoseconds(const struct timeval *time)
{
	return (uint64_t)time->tv_sec * 1000000000u + (uint64_t)time->tv_usec * 1000u;
}

static void run(struct command *command, posix_spawn_file_actions_t *actions, size_t number)
{
	struct rusage usage;
	uint64_t begin = now(CLOCK_MONOTONIC);
	pid_t pid;
	int status;

	if (posix_spawn(&pid, command->words[0], actions, NULL, command->words,
		    command->environment) != 0)
		die(command->words[0]);
	if (wait4(pid, &status, 0, &usage) != pid)
		die("wait4");
	uint64_t took = now(CLOCK_MONOTONIC) - begin;
	if (status != 0) {
		fprintf(stderr, "%s ended with %#x\n", command->words[0], (unsigned)status);
		exit(1);
	}
	printf("%zu %llu %llu\n", number, (unsigned long long)took,
		(unsigned long long)(nanoseconds(&usage.ru_utime) +
				     nanoseconds(&usage.ru_stime)));
}

int main(int argc, char **argv)
{
	posix_spawn_file_actions_t actions;
	size_t count;

	if (argc != 3) {
		fprintf(stderr, "usage: spawns LIST ROUNDS\n");
		return 2;
	}
	char **lines = read_list(argv[1], &count);
	struct command *commands = calloc(count, sizeof(*commands));
	/* Nobody reads the results meanwhile, on a core that a program could have. */
	if (commands == NULL || setvbuf(stdout, NULL, _IOFBF, 1 << 20) != 0 ||
		posix_spawn_file_actions_init(&actions) != 0 ||
		posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0) != 0 ||
		posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0) != 0)
		die("memory");
	for (size_t i = 0; i < count; i++)
		prepare(&commands[i], lines[i]);
	/* Forwards and backwards: nobody always runs behind the same one. */
	for (long round = atol(argv[2]); round > 0; round--)
		for (size_t i = 0; i < count; i++) {
			size_t number = round % 2 ? i : count - 1 - i;
			run(&commands[number], &actions, number);
		}
	return 0;
}
