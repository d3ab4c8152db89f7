/* SPDX-License-Identifier: MIT */
/* Numbers for the Python glue: states of generators, and names. */
#include "hooks/torch/numbers.h"
#include "hooks/torch/samples.h"

#include "shim/hash.h"

#include <string.h>

#define TWISTER_WORDS 624u

void tsshim_sample_twister(uint32_t *words, uint32_t seed)
{
	words[0] = seed;
	for (uint32_t i = 1; i < TWISTER_WORDS; i++)
		words[i] = UINT32_C(1812433253) * (words[i - 1] ^ words[i - 1] >> 30) + i;
}

#define TWIST(last, factor) (((last) ^ (last) >> 30) * UINT32_C(factor))

/* What random.seed() begins with, whatever the number: tsshim_sample_twister() of 19650218. */
static const uint32_t *python_begin(void)
{
	static uint32_t words[TWISTER_WORDS];

	/* The interpreter's lock is held.  None of the words is 0 at its end. */
	if (words[TWISTER_WORDS - 1] == 0)
		tsshim_sample_twister(words, UINT32_C(19650218));
	return words;
}

/*
 * CPython's random.seed() with a number: init_by_array() of the same authors, with as many
 * words of 32 bits as the number has (Modules/_randommodule.c).  Each step waits for the one
 * before it, and a processor has nothing else to do meanwhile: so at the same time @first and
 * @second become what tsshim_sample_twister() makes of their first words, the one in each pass
 * over the words.
 */
static inline __attribute__((always_inline)) void seed_passes(uint32_t *restrict words,
	uint64_t number, uint32_t *restrict first, uint32_t *restrict second)
{
	const uint32_t low = (uint32_t)number, high = (uint32_t)(number >> 32);
	const uint32_t keys[2] = {low, high != 0 ? high + 1 : low};
	const uint32_t *begin = python_begin();
	uint32_t last = begin[0], other = first ? first[0] : 0;

	for (uint32_t i = 1; i < TWISTER_WORDS; i++) {
		words[i] = last = (begin[i] ^ TWIST(last, 1664525)) + keys[(i - 1) % 2];
		if (first)
			first[i] = other = TWIST(other, 1812433253) + i;
	}
	words[1] = last = (words[1] ^ TWIST(last, 1664525)) + keys[1];
	if (second)
		second[1] = other = TWIST(second[0], 1812433253) + 1;
	for (uint32_t i = 2; i < TWISTER_WORDS; i++) {
		words[i] = last = (words[i] ^ TWIST(last, 1566083941)) - i;
		if (second)
			second[i] = other = TWIST(other, 1812433253) + i;
	}
	words[1] = (words[1] ^ TWIST(last, 1566083941)) - 1;
	words[0] = UINT32_C(1) << 31;
}

static void seed_python(uint32_t *words, uint64_t number)
{
	seed_passes(words, number, NULL, NULL);
}

static void seed_random(const struct ts_generator *to, uint64_t number)
{
	const int32_t position = TWISTER_WORDS;

	seed_python(to->words, number);
	memcpy(to->more, &position, sizeof(position));
}

/* at::mt19937_data_pod (ATen/core/MT19937RNGEngine.h). */
struct torch_engine {
	uint64_t seed;
	int32_t left;
	bool is_seeded;
	uint32_t next;
	uint32_t words[TWISTER_WORDS];
};

/*
 * As manual_seed() leaves it: all words are used up, and no normal number is left over. Returns
 * the words, of which only the first is there.
 */
static uint32_t *begin_torch(const struct ts_generator *to, uint64_t number)
{
	struct torch_engine *engine = to->words;

	engine->seed = number;
	engine->left = 1;
	engine->is_seeded = true;
	engine->next = 0;
	*(bool *)to->more = false;
	*(bool *)to->rest = false;
	engine->words[0] = (uint32_t)number;
	return engine->words;
}

static void seed_torch(const struct ts_generator *to, uint64_t number)
{
	tsshim_sample_twister(begin_torch(to, number), (uint32_t)number);
}

/* Likewise. */
static uint32_t *begin_numpy(const struct ts_generator *to, uint32_t number)
{
	const int32_t position = TWISTER_WORDS;
	uint32_t *words = to->words;

	memcpy(words + TWISTER_WORDS, &position, sizeof(position));
	if (to->more)
		memset(to->more, 0, 16); /* a number of the normal distribution left over */
	words[0] = number;
	return words;
}

static void seed_numpy(const struct ts_generator *to, uint32_t number)
{
	tsshim_sample_twister(begin_numpy(to, number), number);
}

static void seed_one(const struct ts_generator *to)
{
	const uint64_t *n = to->numbers;
	const int32_t philox_position = 4;

	switch ((enum ts_generator_kind)to->kind) {
	case TS_GENERATOR_NUMPY:
		seed_numpy(to, (uint32_t)n[0]);
		break;
	case TS_GENERATOR_PYTHON:
		seed_random(to, n[0]);
		break;
	case TS_GENERATOR_TORCH: /* of 63 bits, as sharing/private.py does it */
		seed_torch(to, n[0] >> 1);
		break;
	case TS_GENERATOR_PCG: /* two numbers of 128 bits, least words first */
		memcpy(to->words, (uint64_t[]){n[1], n[0], n[3] | 1, n[2]}, 32);
		memset(to->more, 0, 8);
		break;
	case TS_GENERATOR_PHILOX: /* key; counter; position, buffer, half a word */
		memcpy(to->words, n, 16);
		memset(to->more, 0, 32);
		memset(to->rest, 0, 48);
		memcpy(to->rest, &philox_position, sizeof(philox_position));
		break;
	case TS_GENERATOR_SFC: /* three words and a counter that begins with one; half a word */
		memcpy(to->words, (uint64_t[]){n[0], n[1], n[2], 1}, 32);
		memset(to->more, 0, 8);
		break;
	case TS_GENERATOR_OTHER:
		break;
	}
}

void tsshim_sample_seed(
	struct ts_generator *generators, uint64_t count, const void *numbers, uint64_t bytes)
{
	for (uint64_t i = 0; i < count; i++) {
		struct ts_generator *to = &generators[i];
		for (size_t half = 0; half < 2; half++) {
			struct ts_hasher hasher;
			ts_hasher_init(&hasher);
			ts_hasher_add(&hasher, &half, sizeof(half));
			ts_hasher_add(&hasher, numbers, bytes);
			ts_hasher_add(&hasher, to->path, to->path_bytes);
			struct ts_hash128 found = ts_hasher_digest(&hasher);
			to->numbers[2 * half] = found.lo;
			to->numbers[2 * half + 1] = found.hi;
		}
		seed_one(to);
	}
}

void tsshim_sample_seed_globals(const struct ts_generator *generators, uint64_t torch_seed,
	uint64_t python_seed, uint32_t numpy_seed)
{
	const int32_t position = TWISTER_WORDS;
	const struct ts_generator *torch = &generators[0], *python = &generators[1],
				  *numpy = &generators[2];

	if (torch->kind == TS_GENERATOR_TORCH && python->kind == TS_GENERATOR_PYTHON &&
		numpy->kind == TS_GENERATOR_NUMPY) {
		seed_passes(python->words, python_seed, begin_torch(torch, torch_seed),
			begin_numpy(numpy, numpy_seed));
		memcpy(python->more, &position, sizeof(position));
		return;
	}
	if (torch->kind == TS_GENERATOR_TORCH)
		seed_torch(torch, torch_seed);
	if (python->kind == TS_GENERATOR_PYTHON)
		seed_random(python, python_seed);
	if (numpy->kind == TS_GENERATOR_NUMPY)
		seed_numpy(numpy, numpy_seed);
}

void tsshim_sample_hash(const void *data, uint64_t bytes, void *ret_digest)
{
	struct ts_hash128 digest = ts_hash128(data, bytes);

	memcpy(ret_digest, &digest, sizeof(digest));
}
