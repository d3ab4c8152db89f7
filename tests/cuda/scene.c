/* SPDX-License-Identifier: MIT */
/* What small programs that bring batches have in common. */
#include "scene.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const struct mini_driver *cu;
unsigned char *scene_source, *scene_arrived;

void scene_check(CUresult result, const char *what)
{
	if (result == CUDA_SUCCESS)
		return;
	printf("%s: %d\n", what, (int)result);
	fflush(stdout);
	_exit(3);
}

void scene_start(void)
{
	cu = mini_driver(0);
	scene_source = malloc(SCENE_BYTES);
	scene_arrived = malloc(SCENE_BYTES);
	if (!cu->cuInit || !scene_source || !scene_arrived)
		_exit(3);
	(void)signal(SIGPIPE, SIG_IGN); /* scene_after() */
	SCENE_CHECK(cu->cuInit(0));
}

long scene_word(char **words, const char *name, long otherwise)
{
	size_t length = strlen(name);
	for (char **word = words; *word; word++)
		if (strncmp(*word, name, length) == 0 && (*word)[length] == '=')
			return strtol(*word + length + 1, NULL, 10);
	return otherwise;
}

void scene_wait(char **words)
{
	int ready = (int)scene_word(words, "ready", -1);
	int gate = (int)scene_word(words, "gate", -1);
	char byte = 0;
	if (ready >= 0 && (write(ready, &byte, 1) != 1 || close(ready) != 0))
		_exit(2);
	while (gate >= 0 && read(gate, &byte, 1) > 0)
		;
}

void scene_before(char **words)
{
	int before = (int)scene_word(words, "before", -1);
	char byte;
	/* At its end the other one has gone. */
	if (before >= 0 && read(before, &byte, 1) < 0)
		_exit(2);
}

void scene_after(char **words)
{
	int after = (int)scene_word(words, "after", -1);
	char byte = 0;
	if (after >= 0 && write(after, &byte, 1) != 1 && errno != EPIPE)
		_exit(2);
}

static uint64_t word_at(uint64_t data, uint64_t number, size_t i)
{
	uint64_t x =
		data * UINT64_C(0x9e3779b97f4a7c15) + number * UINT64_C(0xbf58476d1ce4e5b9) + i;
	x = (x ^ (x >> 30)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

void scene_fill(uint64_t data, uint64_t number)
{
	for (size_t i = 0; i < SCENE_BYTES / 8; i++) {
		uint64_t word = word_at(data, number, i);
		memcpy(scene_source + 8 * i, &word, 8);
	}
}

int scene_is(uint64_t data, uint64_t number)
{
	for (size_t i = 0; i < SCENE_BYTES / 8; i++) {
		uint64_t word = word_at(data, number, i);
		if (memcmp(scene_arrived + 8 * i, &word, 8) != 0)
			return 0;
	}
	return 1;
}
