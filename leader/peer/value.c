/* SPDX-License-Identifier: MIT */
/* Chunks of values and their tags: leader/peer/value.h explains them. */
#include "leader/peer/value.h"

#include "shim/hash.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define TAG_BYTES     16
#define KEY_BYTES     16 /* of a tag: AES-128, a third quicker than AES-256 */
#define HMAC_BYTES    32
#define HEAD_UNTAGGED offsetof(struct ts_value_head, tag)

struct ts_sealer {
	struct ts_secrets secrets;
	EVP_MAC *hmac, *gmac;
	EVP_MAC_CTX *keys, *tags;
};

const char *ts_value_fault(int error)
{
#define CASE(name, number, text) \
	case -number:            \
		return text;
	switch (error) {
		TS_VALUE_FAULTS(CASE)
	default:
		return NULL;
	}
#undef CASE
}

uint32_t ts_value_count(uint64_t total)
{
	if (total > TS_VALUE_MAX)
		return 0;
	return total == 0 ? 1 : (uint32_t)((total + TS_VALUE_CHUNK - 1) / TS_VALUE_CHUNK);
}

uint32_t ts_value_bytes(uint64_t total, uint32_t chunk)
{
	if (chunk >= ts_value_count(total))
		return 0;
	return (uint32_t)ts_min_u64(TS_VALUE_CHUNK, total - (uint64_t)chunk * TS_VALUE_CHUNK);
}

/* ---- tags ------------------------------------------------------------------------------- */

static int fetch(struct ts_sealer *sealer)
{
	char digest[] = "SHA256", cipher[] = "AES-128-GCM";
	OSSL_PARAM of_keys[] = {
		OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
		OSSL_PARAM_construct_end(),
	};
	OSSL_PARAM of_tags[] = {
		OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_CIPHER, cipher, 0),
		OSSL_PARAM_construct_end(),
	};

	sealer->hmac = EVP_MAC_fetch(NULL, "HMAC", NULL);
	sealer->gmac = EVP_MAC_fetch(NULL, "GMAC", NULL);
	if (!sealer->hmac || !sealer->gmac)
		return -ENOTSUP;
	sealer->keys = EVP_MAC_CTX_new(sealer->hmac);
	sealer->tags = EVP_MAC_CTX_new(sealer->gmac);
	if (!sealer->keys || !sealer->tags)
		return -ENOMEM;
	return EVP_MAC_CTX_set_params(sealer->keys, of_keys) == 1 &&
			       EVP_MAC_CTX_set_params(sealer->tags, of_tags) == 1
		       ? 0
		       : -ENOTSUP;
}

int ts_sealer_create(const struct ts_secrets *secrets, struct ts_sealer **ret_sealer)
{
	if (secrets->count == 0)
		return -EINVAL;
	struct ts_sealer *sealer = calloc(1, sizeof(*sealer));
	if (!sealer)
		return -ENOMEM;
	sealer->secrets = *secrets;
	int r = fetch(sealer);
	if (r < 0) {
		ts_sealer_destroy(sealer);
		return r;
	}
	*ret_sealer = sealer;
	return 0;
}

void ts_sealer_destroy(struct ts_sealer *sealer)
{
	if (!sealer)
		return;
	EVP_MAC_CTX_free(sealer->keys);
	EVP_MAC_CTX_free(sealer->tags);
	EVP_MAC_free(sealer->hmac);
	EVP_MAC_free(sealer->gmac);
	ts_secrets_finish(&sealer->secrets);
	free(sealer);
}

static int one_time_key(struct ts_sealer *sealer, const unsigned char *key,
	const struct ts_value_place *place, const struct ts_value_head *head,
	unsigned char ret_key[HMAC_BYTES])
{
	size_t bytes = 0;

	if (EVP_MAC_init(sealer->keys, key, TS_SECRET_BYTES, NULL) != 1 ||
		EVP_MAC_update(sealer->keys, (const unsigned char *)head, HEAD_UNTAGGED) != 1 ||
		EVP_MAC_update(sealer->keys, place->key, place->key_bytes) != 1 ||
		EVP_MAC_final(sealer->keys, ret_key, &bytes, HMAC_BYTES) != 1 ||
		bytes != HMAC_BYTES)
		return -ENOTSUP;
	return 0;
}

static int make_tag(struct ts_sealer *sealer, const unsigned char *key,
	const struct ts_value_place *place, const struct ts_value_head *head, const void *bytes,
	unsigned char ret_tag[TAG_BYTES])
{
	unsigned char one_time[HMAC_BYTES], zeros[12] = {0};
	/* A key that serves once needs no more; OpenSSL forgets it with each tag. */
	OSSL_PARAM nonce[] = {
		OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_IV, zeros, sizeof(zeros)),
		OSSL_PARAM_construct_end(),
	};
	size_t got = 0;
	int r = one_time_key(sealer, key, place, head, one_time);

	if (r == 0 && (EVP_MAC_init(sealer->tags, one_time, KEY_BYTES, nonce) != 1 ||
			      EVP_MAC_update(sealer->tags, bytes, head->bytes) != 1 ||
			      EVP_MAC_final(sealer->tags, ret_tag, &got, TAG_BYTES) != 1 ||
			      got != TAG_BYTES))
		r = -ENOTSUP;
	OPENSSL_cleanse(one_time, sizeof(one_time));
	return r;
}

/* ---- both ways -------------------------------------------------------------------------- */

int ts_value_seal(struct ts_sealer *sealer, const struct ts_value_place *place,
	const void *bytes, struct ts_value_head *ret_head)
{
	struct ts_value_head head = {
		.magic = TS_VALUE_MAGIC,
		.version = TS_VALUE_VERSION,
		.secret = sealer->secrets.keys[0].id,
		.bytes = ts_value_bytes(place->total, place->chunk),
		.total = place->total,
		.one = 1,
		.chunk = place->chunk,
		.count = ts_value_count(place->total),
	};

	if (place->chunk >= head.count)
		return -EINVAL;
	head.checksum = ts_hash64(bytes, head.bytes);
	if (getrandom(head.nonce, sizeof(head.nonce), GRND_NONBLOCK) != sizeof(head.nonce))
		return -EAGAIN;
	int r = make_tag(sealer, sealer->secrets.keys[0].value, place, &head, bytes, head.tag);
	if (r == 0)
		*ret_head = head;
	return r;
}

/* What the head says of itself, before anything is computed. */
static int check_shape(const struct ts_value_head *head, size_t got)
{
	if (got < sizeof(*head))
		return -ENODATA;
	if (head->magic != TS_VALUE_MAGIC)
		return -EILSEQ;
	if (head->version != TS_VALUE_VERSION)
		return -EPROTONOSUPPORT;
	if (head->count != ts_value_count(head->total) || head->chunk >= head->count ||
		head->bytes != ts_value_bytes(head->total, head->chunk))
		return -EDOM;
	if (got - sizeof(*head) < head->bytes)
		return -ENODATA;
	return got - sizeof(*head) > head->bytes ? -EOVERFLOW : 0;
}

/* Whether it claims to be what was asked for. */
static int check_place(const struct ts_value_place *place, const struct ts_value_head *head)
{
	if (head->chunk != place->chunk ||
		(place->total != TS_VALUE_ANY_TOTAL && head->total != place->total))
		return -ENXIO;
	return 0;
}

static int find_key(
	const struct ts_secrets *secrets, uint32_t id, const unsigned char **ret_key)
{
	for (uint32_t i = 0; i < secrets->count; i++) {
		if (secrets->keys[i].id == id) {
			*ret_key = secrets->keys[i].value;
			return 0;
		}
	}
	return -ENOKEY;
}

int ts_value_open(struct ts_sealer *sealer, const struct ts_value_place *place,
	const struct ts_value_head *head, size_t got, const void *bytes)
{
	const unsigned char *key = NULL;
	unsigned char tag[TAG_BYTES];
	int r = check_shape(head, got);

	if (r == 0)
		r = find_key(&sealer->secrets, head->secret, &key);
	if (r == 0)
		r = check_place(place, head);
	if (r == 0)
		r = make_tag(sealer, key, place, head, bytes, tag);
	if (r < 0 || CRYPTO_memcmp(tag, head->tag, TAG_BYTES) == 0)
		return r;
	return ts_hash64(bytes, head->bytes) == head->checksum ? -EKEYREJECTED : -EIO;
}
