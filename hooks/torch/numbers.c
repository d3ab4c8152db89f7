/* SPDX-License-Identifier: MIT */
/* States of generators for the Python glue. */
#include "hooks/torch/numbers.h"

#include "shim/hash.h"

#include <string.h>

#define TWISTER_WORDS 624u

/*
 * Eight generators side by side (xorshift128+, Vigna 2017), so that the processor takes several
 * steps at once.  init_genrand() of a Mersenne twister is 624 steps of which each waits for the
 * one before it, and its words have to be mixed once more before the first of them can be
 * drawn: three generators took 5.7 us and the mixing, and take 1.0.
 */
#define LANES 8
typedef uint64_t lanes __attribute__((vector_size(LANES * sizeof(uint64_t))));

/* The next number of the sequence that spreads a seed (Steele, Lea and Flood, 2014). */
static uint64_t split_mix(uint64_t *state)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

void tsshim_sample_words(uint32_t *words, uint64_t seed)
{
	lanes one = {0}, other = {0};

	for (unsigned i = 0; i < LANES; i++) {
		one[i] = split_mix(&seed);
		other[i] = split_mix(&seed);
	}
	for (unsigned i = 0; i < TWISTER_WORDS; i += sizeof(lanes) / sizeof(*words)) {
		lanes sum = one + other, x = one;
		memcpy(words + i, &sum, sizeof(sum));
		one = other;
		x ^= x << 23;
		other = x ^ one ^ x >> 18 ^ one >> 5;
	}
}

static void seed_random(const struct ts_generator *to, uint64_t number)
{
	tsshim_sample_words(to->words, number);
	memset(to->more, 0, sizeof(int32_t));
}

/* at::mt19937_data_pod (ATen/core/MT19937RNGEngine.h). */
struct torch_engine {
	uint64_t seed;
	int32_t left;
	bool is_seeded;
	uint32_t next;
	uint32_t words[TWISTER_WORDS];
};

/* As if one number had been drawn, and with no normal number left over. */
static void seed_torch(const struct ts_generator *to, uint64_t number)
{
	struct torch_engine *engine = to->words;

	engine->seed = number;
	engine->left = TWISTER_WORDS;
	engine->is_seeded = true;
	engine->next = 1;
	*(bool *)to->more = false;
	*(bool *)to->rest = false;
	tsshim_sample_words(engine->words, number);
}

static void seed_numpy(const struct ts_generator *to, uint64_t number)
{
	uint32_t *words = to->words;

	tsshim_sample_words(words, number);
	memset(words + TWISTER_WORDS, 0, sizeof(int32_t));
	if (to->more)
		memset(to->more, 0, 16); /* a number of the normal distribution left over */
}

static void seed_one(const struct ts_generator *to)
{
	const uint64_t *n = to->numbers;
	const int32_t philox_position = 4;

	switch ((enum ts_generator_kind)to->kind) {
	case TS_GENERATOR_NUMPY:
		seed_numpy(to, n[0]);
		break;
	case TS_GENERATOR_PYTHON:
		seed_random(to, n[0]);
		break;
	case TS_GENERATOR_TORCH: /* of 63 bits, as sharing/item/private.py does it */
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

bool ts_globals_are_fresh(const struct ts_generator *generators)
{
	const struct ts_generator *torch = &generators[0], *python = &generators[1],
				  *numpy = &generators[2];
	const struct torch_engine *engine = torch->words;
	int32_t position;

	if (torch->kind == TS_GENERATOR_TORCH &&
		(engine->left != TWISTER_WORDS || engine->next != 1))
		return false;
	if (python->kind == TS_GENERATOR_PYTHON) {
		memcpy(&position, python->more, sizeof(position));
		if (position != 0)
			return false;
	}
	if (numpy->kind == TS_GENERATOR_NUMPY) {
		memcpy(&position, (uint32_t *)numpy->words + TWISTER_WORDS, sizeof(position));
		if (position != 0)
			return false;
	}
	return true;
}

void tsshim_sample_seed_globals(const struct ts_generator *generators, uint64_t torch_seed,
	uint64_t python_seed, uint32_t numpy_seed)
{
	const struct ts_generator *torch = &generators[0], *python = &generators[1],
				  *numpy = &generators[2];

	if (torch->kind == TS_GENERATOR_TORCH)
		seed_torch(torch, torch_seed);
	if (python->kind == TS_GENERATOR_PYTHON)
		seed_random(python, python_seed);
	if (numpy->kind == TS_GENERATOR_NUMPY)
		seed_numpy(numpy, numpy_seed);
}
