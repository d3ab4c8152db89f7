/* SPDX-License-Identifier: MIT */
/*
 * threads N FILE...: N threads decode all files, each beginning elsewhere, and one child is
 * forked for each file in the middle of that; prints all hashes.
 */
#include "victim.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

struct worker {
	pthread_t thread;
	const struct victim_input *inputs;
	int count, first;
	uint64_t *hashes; /* by input; 0: error */
};

static void *work(void *argument)
{
	struct worker *worker = argument;
	for (int i = 0; i < worker->count; i++) {
		int at = (worker->first + i) % worker->count;
		struct victim_errors errors;
		worker->hashes[at] = 0;
		victim_decode_memory(&worker->inputs[at], &errors, &worker->hashes[at]);
	}
	return NULL;
}

/* What the child saw, cut to its exit status; -1 if it did not get that far. */
static int decode_in_child(const struct victim_input *input)
{
	int status;
	pid_t child = fork();
	if (child == 0) {
		struct victim_errors errors;
		uint64_t hash = 0;
		victim_decode_memory(input, &errors, &hash);
		_exit((int)(hash % 251));
	}
	if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
		return -1;
	return WEXITSTATUS(status);
}

int main(int argc, char **argv)
{
	int threads = argc > 2 ? atoi(argv[1]) : 0, count = argc - 2;
	if (threads < 1)
		victim_usage("threads N FILE...");
	struct victim_input *inputs = victim_alloc((size_t)count * sizeof(*inputs));
	struct worker *workers = victim_alloc((size_t)threads * sizeof(*workers));
	for (int i = 0; i < count; i++)
		victim_input_load(&inputs[i], argv[2 + i]);
	for (int t = 0; t < threads; t++) {
		workers[t] = (struct worker){.inputs = inputs,
			.count = count,
			.first = t % count,
			.hashes = victim_alloc((size_t)count * sizeof(uint64_t))};
		if (pthread_create(&workers[t].thread, NULL, work, &workers[t]) != 0)
			victim_usage("cannot start a thread");
	}
	for (int i = 0; i < count; i++)
		printf("child %s %d\n", victim_base_name(argv[2 + i]),
			decode_in_child(&inputs[i]));
	for (int t = 0; t < threads; t++) {
		pthread_join(workers[t].thread, NULL);
		for (int i = 0; i < count; i++)
			printf("%d %s %016llx\n", t, victim_base_name(argv[2 + i]),
				(unsigned long long)workers[t].hashes[i]);
		free(workers[t].hashes);
	}
	for (int i = 0; i < count; i++)
		victim_input_free(&inputs[i]);
	free(inputs);
	free(workers);
	return fflush(stdout) != 0;
}
