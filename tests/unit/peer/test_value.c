/* SPDX-License-Identifier: MIT */
/* Chunks that are what they say, and chunks that are not. */
#include "leader/peer/value.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/params.h>
#include <stdlib.h>
#include <string.h>

#define OLD "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n"
#define NEW "ffeeddccbbaa99887766554433221100ffeeddccbbaa99887766554433221100\n"

#define TOTAL (2 * (uint64_t)TS_VALUE_CHUNK + 1000)

static struct ts_sealer *sealer;
static unsigned char *bytes;
static struct ts_value_head head;

static struct ts_sealer *make(const char *text)
{
	struct ts_secrets secrets;
	struct ts_sealer *made = NULL;

	cr_assert(eq(int, ts_secrets_parse(text, strlen(text), &secrets), 0));
	cr_assert(eq(int, ts_sealer_create(&secrets, &made), 0));
	ts_secrets_finish(&secrets);
	return made;
}

static void begin(void)
{
	sealer = make(NEW OLD);
	bytes = malloc(TOTAL);
	cr_assert(ne(ptr, bytes, NULL));
	for (uint64_t i = 0; i < TOTAL; i++)
		bytes[i] = (unsigned char)(i * 2654435761u >> 24);
}

static void end(void)
{
	ts_sealer_destroy(sealer);
	free(bytes);
}

TestSuite(value, .init = begin, .fini = end);

static struct ts_value_place place(const char *key, uint64_t total, uint32_t chunk)
{
	return (struct ts_value_place){key, strlen(key), total, chunk};
}

static unsigned char *chunk_at(uint32_t chunk)
{
	return bytes + (size_t)chunk * TS_VALUE_CHUNK;
}

static void seal(const char *key, uint64_t total, uint32_t chunk)
{
	struct ts_value_place at = place(key, total, chunk);

	cr_assert(eq(int, ts_value_seal(sealer, &at, chunk_at(chunk), &head), 0));
}

/* As chunk @chunk of @key, from where another one may have been put. */
static int take(const char *key, uint64_t total, uint32_t chunk, const unsigned char *from)
{
	struct ts_value_place at = place(key, total, chunk);

	return ts_value_open(sealer, &at, &head, sizeof(head) + head.bytes, from);
}

Test(value, chunks_are_taken_for_what_they_are)
{
	static const uint64_t totals[] = {0, 1, 15, 16, 17, TS_VALUE_CHUNK - 1, TS_VALUE_CHUNK,
		(uint64_t)TS_VALUE_CHUNK + 1, TOTAL};

	for (size_t i = 0; i < TS_ARRAY_SIZE(totals); i++) {
		uint64_t sum = 0;
		for (uint32_t chunk = 0; chunk < ts_value_count(totals[i]); chunk++) {
			seal("key", totals[i], chunk);
			cr_expect(eq(int, take("key", totals[i], chunk, chunk_at(chunk)), 0));
			cr_expect(eq(int,
				take("key", TS_VALUE_ANY_TOTAL, chunk, chunk_at(chunk)), 0));
			sum += head.bytes;
		}
		cr_expect(eq(u64, sum, totals[i]));
	}
	cr_expect(eq(u32, ts_value_count(TS_VALUE_MAX + 1), 0));
	cr_expect(eq(u32, ts_value_bytes(TOTAL, 3), 0));
}

Test(value, no_bit_of_a_chunk_may_be_another_one)
{
	unsigned char *stored = (unsigned char *)&head;
	const uint64_t total = 40;

	seal("key", total, 0);
	for (size_t bit = 0; bit < 8 * sizeof(head); bit++) {
		stored[bit / 8] ^= (unsigned char)(1u << bit % 8);
		cr_expect(
			ne(int, take("key", TS_VALUE_ANY_TOTAL, 0, bytes), 0), "bit %zu", bit);
		stored[bit / 8] ^= (unsigned char)(1u << bit % 8);
	}
	for (size_t bit = 0; bit < 8 * total; bit++) {
		bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
		cr_expect(eq(int, take("key", total, 0, bytes), -EIO), "bit %zu", bit);
		bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
	}
	cr_expect(eq(int, take("key", total, 0, bytes), 0));
}

Test(value, one_that_is_cut_or_grows_is_refused)
{
	struct ts_value_place at = place("key", 100, 0);

	seal("key", 100, 0);
	for (size_t got = 0; got < sizeof(head) + 100; got++)
		cr_expect(eq(int, ts_value_open(sealer, &at, &head, got, bytes), -ENODATA));
	cr_expect(eq(
		int, ts_value_open(sealer, &at, &head, sizeof(head) + 101, bytes), -EOVERFLOW));
	/* Cut, with numbers to match. */
	head.bytes = 50;
	cr_expect(eq(int, take("key", 100, 0, bytes), -EDOM));
	head.total = 50;
	cr_expect(eq(int, take("key", 100, 0, bytes), -ENXIO));
	cr_expect(ne(int, take("key", TS_VALUE_ANY_TOTAL, 0, bytes), 0));
}

Test(value, the_value_of_another_key_is_refused)
{
	seal("key", 100, 0);
	cr_expect(eq(int, take("kez", 100, 0, bytes), -EKEYREJECTED));
	cr_expect(eq(int, take("key2", 100, 0, bytes), -EKEYREJECTED));
	cr_expect(eq(int, take("ke", 100, 0, bytes), -EKEYREJECTED));
}

Test(value, chunks_that_change_places_are_refused)
{
	seal("key", TOTAL, 1);
	cr_expect(eq(int, take("key", TOTAL, 0, chunk_at(1)), -ENXIO));
	head.chunk = 0;
	cr_expect(eq(int, take("key", TOTAL, 0, chunk_at(1)), -EKEYREJECTED));
}

Test(value, another_size_is_refused)
{
	seal("key", 100, 0);
	cr_expect(eq(int, take("key", 101, 0, bytes), -ENXIO));
	head.one = 8;
	cr_expect(eq(int, take("key", 100, 0, bytes), -EKEYREJECTED));
}

Test(value, what_is_not_ours_is_named)
{
	seal("key", 100, 0);
	struct ts_value_head good = head;
	head.magic++;
	cr_expect(eq(int, take("key", 100, 0, bytes), -EILSEQ));
	head = good;
	head.version++;
	cr_expect(eq(int, take("key", 100, 0, bytes), -EPROTONOSUPPORT));
	head = good;
	head.secret++;
	cr_expect(eq(int, take("key", 100, 0, bytes), -ENOKEY));
	head = good;
	head.count++;
	cr_expect(eq(int, take("key", 100, 0, bytes), -EDOM));
	head = good;
	head.total = UINT64_MAX;
	cr_expect(eq(int, take("key", 100, 0, bytes), -EDOM));
	head = good;
	head.tag[0] ^= 1;
	cr_expect(eq(int, take("key", 100, 0, bytes), -EKEYREJECTED));
}

/* Who has no secret of ours may compute the checksum, and that is all. */
Test(value, another_users_value_is_refused)
{
	struct ts_sealer *ours = sealer;

	sealer = make("1111111111111111111111111111111111111111111111111111111111111111\n");
	seal("key", 100, 0);
	struct ts_value_head theirs = head;
	ts_sealer_destroy(sealer);
	sealer = ours;
	cr_expect(eq(int, take("key", 100, 0, bytes), -ENOKEY));
	seal("key", 100, 0);
	theirs.secret = head.secret;
	head = theirs;
	cr_expect(eq(int, take("key", 100, 0, bytes), -EKEYREJECTED));
}

Test(value, secrets_are_exchanged_in_three_steps)
{
	static const char *const steps[] = {OLD, OLD NEW, NEW OLD, NEW};

	for (size_t i = 0; i < TS_ARRAY_SIZE(steps); i++) {
		for (size_t j = 0; j < TS_ARRAY_SIZE(steps); j++) {
			struct ts_sealer *writer = make(steps[i]), *reader = make(steps[j]);
			struct ts_value_place at = place("key", 100, 0);
			cr_assert(eq(int, ts_value_seal(writer, &at, bytes, &head), 0));
			int r = ts_value_open(reader, &at, &head, sizeof(head) + 100, bytes);
			/* Nodes are at most one step apart. */
			bool near = i <= j ? j - i <= 1 : i - j <= 1;
			cr_expect(eq(int, near ? r : r == -ENOKEY ? 0 : r, 0), "%zu %zu", i, j);
			ts_sealer_destroy(writer);
			ts_sealer_destroy(reader);
		}
	}
}

Test(value, no_two_heads_are_the_same)
{
	seal("key", 100, 0);
	struct ts_value_head first = head;
	seal("key", 100, 0);
	cr_expect(ne(int, memcmp(first.nonce, head.nonce, sizeof(head.nonce)), 0));
	cr_expect(ne(int, memcmp(first.tag, head.tag, sizeof(head.tag)), 0));
}

/* By the one-shot functions of libcrypto, which share no state with those used here. */
static void make_tag_anew(const char *key, unsigned char ret_tag[16])
{
	unsigned char text[256], one_time[32], zeros[12] = {0};
	char cipher[] = "AES-128-GCM";
	OSSL_PARAM parameters[] = {
		OSSL_PARAM_construct_utf8_string("cipher", cipher, 0),
		OSSL_PARAM_construct_octet_string("iv", zeros, sizeof(zeros)),
		OSSL_PARAM_construct_end(),
	};
	struct ts_secrets secrets;
	size_t got = 0;

	cr_assert(eq(int, ts_secrets_parse(NEW OLD, strlen(NEW OLD), &secrets), 0));
	memcpy(text, &head, 64);
	memcpy(text + 64, key, strlen(key));
	cr_assert(ne(ptr,
		HMAC(EVP_sha256(), secrets.keys[0].value, 32, text, 64 + strlen(key), one_time,
			NULL),
		NULL));
	cr_assert(ne(ptr,
		EVP_Q_mac(NULL, "GMAC", NULL, NULL, parameters, one_time, 16, bytes, head.bytes,
			ret_tag, 16, &got),
		NULL));
	cr_assert(eq(sz, got, 16));
}

Test(value, tags_are_what_is_written_of_them)
{
	static const uint64_t totals[] = {0, 1, 100, TS_VALUE_CHUNK};
	unsigned char tag[16];

	/* Twice, as the second one might depend on the first one. */
	for (size_t i = 0; i < 2 * TS_ARRAY_SIZE(totals); i++) {
		seal("key", totals[i / 2], 0);
		make_tag_anew("key", tag);
		cr_expect(eq(int, memcmp(tag, head.tag, sizeof(tag)), 0), "%zu", i);
	}
}

Test(value, what_cannot_be_is_not_sealed)
{
	struct ts_value_place at = place("key", 100, 1);

	cr_expect(eq(int, ts_value_seal(sealer, &at, bytes, &head), -EINVAL));
	at = place("key", TS_VALUE_MAX + 1, 0);
	cr_expect(eq(int, ts_value_seal(sealer, &at, bytes, &head), -EINVAL));
}

Test(value, each_fault_has_a_number_of_its_own_and_a_text)
{
	static const int numbers[] = {
#define NUMBER(name, number, text) number,
		TS_VALUE_FAULTS(NUMBER)
#undef NUMBER
	};

	for (size_t i = 0; i < TS_ARRAY_SIZE(numbers); i++) {
		cr_expect(ne(ptr, (void *)ts_value_fault(-numbers[i]), NULL));
		for (size_t j = 0; j < i; j++)
			cr_expect(ne(int, numbers[i], numbers[j]));
	}
	cr_expect(eq(ptr, (void *)ts_value_fault(0), NULL));
}
