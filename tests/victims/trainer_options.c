/* SPDX-License-Identifier: MIT */
/* The command line of the trainer; see trainer.c. */
#include "trainer.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const memory_names[] = {"pageable", "pinned", "registered", NULL};

static const char *const stream_names[] = {
	"legacy", "thread", "legacy-handle", "thread-handle", "blocking", "non-blocking", NULL};

static const char *const call_names[] = {
	"htod", "unified", "batch", "batch12", "rows", "graph", NULL};

_Noreturn static void usage(const char *what)
{
	fprintf(stderr,
		"trainer: %s\n"
		"  --bytes N --count N --start N --seed N    the batches\n"
		"  --memory pageable|pinned|registered\n"
		"  --stream legacy|thread|legacy-handle|thread-handle|blocking|non-blocking\n"
		"  --call htod|unified|batch|batch12|rows|graph\n"
		"  --sync              the synchronous call (htod, unified)\n"
		"  --slots N           buffers in turn, so that many copies are under way\n"
		"  --streams N         created streams in turn\n"
		"  --parts N           copies per batch\n"
		"  --threads N         each with batches, buffers and streams of its own\n"
		"  --delay-us N        pause per batch\n"
		"  --device N --own-context\n"
		"  --ready FILE --gate FILE   make the one when set up, begin when the other "
		"is there\n"
		"  --warm FILE         before that bring others until this is there\n"
		"  --print             a line per batch\n",
		what);
	exit(2);
}

enum kind {
	NUMBER,
	WORD, /* one of a list */
	FLAG,
	TEXT,
};

/* Where the value of an option goes. */
struct place {
	enum kind kind;
	void *value;
	const char *const *words;
};

static int word(const char *text, const char *const *names)
{
	for (int i = 0; names[i]; i++)
		if (strcmp(names[i], text) == 0)
			return i;
	usage(text);
}

static long number(const char *text)
{
	char *end;
	long value = strtol(text, &end, 0);
	if (*end != '\0' || end == text || value < 0)
		usage(text);
	return value;
}

static void take(const struct place *place, const char *text)
{
	switch (place->kind) {
	case NUMBER:
		*(long *)place->value = number(text);
		break;
	case WORD:
		*(int *)place->value = word(text, place->words);
		break;
	case FLAG:
		*(bool *)place->value = true;
		break;
	case TEXT:
		*(const char **)place->value = text;
		break;
	}
}

static void check_together(const struct settings *s)
{
	if (s->bytes < 1 || s->slots < 1 || s->slots > MOST_SLOTS || s->streams < 1 ||
		s->streams > MOST_SLOTS || s->parts < 1 || s->parts > s->bytes ||
		s->threads < 1 || s->threads > MOST_SLOTS)
		usage("these numbers do not go together");
	if (s->sync && s->stream == NON_BLOCKING)
		usage("a synchronous copy is in a default stream, which nothing orders with "
		      "this");
	if ((s->call == BATCH || s->call == BATCH_12) &&
		(s->stream == LEGACY || s->stream == LEGACY_HANDLE))
		usage("a batch wants another stream than the legacy one");
	if (s->call == GRAPH &&
		(s->memory == PAGEABLE || s->stream == LEGACY || s->stream == LEGACY_HANDLE))
		usage("a graph wants pinned memory and a stream that can be captured");
}

/* clang-format off */
#define OPTIONS(X) \
	X("bytes", NUMBER, &s.bytes, NULL) \
	X("count", NUMBER, &s.count, NULL) \
	X("start", NUMBER, &s.start, NULL) \
	X("seed", NUMBER, &s.seed, NULL) \
	X("slots", NUMBER, &s.slots, NULL) \
	X("streams", NUMBER, &s.streams, NULL) \
	X("parts", NUMBER, &s.parts, NULL) \
	X("threads", NUMBER, &s.threads, NULL) \
	X("delay-us", NUMBER, &s.delay_us, NULL) \
	X("device", NUMBER, &s.device, NULL) \
	X("memory", WORD, &memory, memory_names) \
	X("stream", WORD, &stream, stream_names) \
	X("call", WORD, &call, call_names) \
	X("sync", FLAG, &s.sync, NULL) \
	X("own-context", FLAG, &s.own_context, NULL) \
	X("print", FLAG, &s.print, NULL) \
	X("gate", TEXT, &s.gate, NULL) \
	X("ready", TEXT, &s.ready, NULL) \
	X("warm", TEXT, &s.warm, NULL)
/* clang-format on */

void trainer_options(int argc, char **argv, struct settings *ret_settings)
{
	struct settings s = {.bytes = 1 << 20,
		.count = 8,
		.seed = 1,
		.slots = 2,
		.streams = 1,
		.parts = 1,
		.threads = 1};
	int memory = PAGEABLE, stream = LEGACY, call = HTOD, index, option;
#define X(name, kind, value, words) {name, (kind) != FLAG, NULL, 1},
	static const struct option names[] = {OPTIONS(X){NULL, 0, NULL, 0}};
#undef X
#define X(name, kind, value, words) {kind, value, words},
	const struct place places[] = {OPTIONS(X)};
#undef X
	while ((option = getopt_long(argc, argv, "", names, &index)) != -1) {
		if (option != 1)
			usage("no such option");
		take(&places[index], optarg);
	}
	if (optind != argc)
		usage(argv[optind]);
	s.memory = (enum trainer_memory)memory;
	s.stream = (enum trainer_stream)stream;
	s.call = (enum trainer_call)call;
	check_together(&s);
	*ret_settings = s;
}
