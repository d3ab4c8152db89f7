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

/* CPython's random.seed() with a number: init_by_array() of the same authors, with as many
 * words of 32 bits as the number has (Modules/_randommodule.c).
 */
static void seed_python(uint32_t *words, uint64_t number)
{
	const uint32_t key[2] = {(uint32_t)number, (uint32_t)(number >> 32)};
	const uint32_t length = key[1] != 0 ? 2 : 1;
	uint32_t i = 1, j = 0;

	tsshim_sample_twister(words, UINT32_C(19650218));
	for (uint32_t k = TWISTER_WORDS; k > 0; k--) {
		uint32_t last = words[i - 1];
		words[i] = (words[i] ^ (last ^ last >> 30) * UINT32_C(1664525)) + key[j] + j;
		if (++i == TWISTER_WORDS) {
			words[0] = words[TWISTER_WORDS - 1];
			i = 1;
		}
		j = (j + 1) % length;
	}
	for (uint32_t k = TWISTER_WORDS - 1; k > 0; k--) {
		uint32_t last = words[i - 1];
		words[i] = (words[i] ^ (last ^ last >> 30) * UINT32_C(1566083941)) - i;
		if (++i == TWISTER_WORDS) {
			words[0] = words[TWISTER_WORDS - 1];
			i = 1;
		}
	}
	words[0] = UINT32_C(1) << 31;
}

static void seed_numpy(const struct ts_generator *to)
{
	const int32_t position = TWISTER_WORDS;

	tsshim_sample_twister(to->words, (uint32_t)to->numbers[0]);
	memcpy((uint32_t *)to->words + TWISTER_WORDS, &position, sizeof(position));
	if (to->more)
		memset(to->more, 0, 16); /* a number of the normal distribution left over */
}

static void seed_one(const struct ts_generator *to)
{
	const uint64_t *n = to->numbers;
	const int32_t python_index = TWISTER_WORDS, philox_position = 4;

	switch ((enum ts_generator_kind)to->kind) {
	case TS_GENERATOR_NUMPY:
		seed_numpy(to);
		break;
	case TS_GENERATOR_PYTHON:
		seed_python(to->words, n[0]);
		memcpy(to->more, &python_index, sizeof(python_index));
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

void tsshim_sample_hash(const void *data, uint64_t bytes, void *ret_digest)
{
	struct ts_hash128 digest = ts_hash128(data, bytes);

	memcpy(ret_digest, &digest, sizeof(digest));
}
