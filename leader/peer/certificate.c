/* SPDX-License-Identifier: MIT */
/* Makes and judges the certificate of a cluster: leader/peer/certificate.h explains it. */
#include "leader/peer/certificate.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DAY  86400L
#define HELD (10L * 365L * DAY)

void ts_certificate_free(char *text, size_t bytes)
{
	if (text)
		OPENSSL_cleanse(text, bytes);
	free(text);
}

/* What was written to @bio, as memory of our own. */
static int take_text(BIO *bio, char **ret_text, size_t *ret_bytes)
{
	char *data = NULL;
	long bytes = BIO_get_mem_data(bio, &data);
	char *text = bytes > 0 ? malloc((size_t)bytes + 1) : NULL;

	if (!text)
		return -ENOMEM;
	memcpy(text, data, (size_t)bytes);
	text[bytes] = '\0';
	*ret_text = text;
	*ret_bytes = (size_t)bytes;
	return 0;
}

static EVP_PKEY *read_key(const char *text, size_t bytes)
{
	BIO *bio = BIO_new_mem_buf(text, (int)bytes);
	/* Without this a key with a password would ask for it. */
	EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, NULL, (void *)"") : NULL;

	BIO_free(bio);
	return key;
}

int ts_certificate_make_key(char **ret_text, size_t *ret_bytes)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	BIO *bio = BIO_new(BIO_s_secmem());
	int r = -ENOTSUP;

	if (key && bio &&
		PEM_write_bio_PKCS8PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL) == 1)
		r = take_text(bio, ret_text, ret_bytes);
	BIO_free(bio);
	EVP_PKEY_free(key);
	return r;
}

/* ---- what it says ----------------------------------------------------------------------- */

static bool add(X509 *certificate, int nid, const char *value)
{
	X509V3_CTX context;

	X509V3_set_ctx_nodb(&context);
	X509V3_set_ctx(&context, certificate, certificate, NULL, NULL, 0);
	X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
	bool added = extension && X509_add_ext(certificate, extension, -1) == 1;
	X509_EXTENSION_free(extension);
	return added;
}

static bool is_new(const struct ts_cluster_nodes *nodes, uint32_t number)
{
	for (uint32_t i = 0; i < number; i++)
		if (strcmp(nodes->servers[i].host, nodes->servers[number].host) == 0)
			return false;
	return true;
}

/* The names in the form of openssl's configuration; what a list may have needs no escape. */
static bool add_hosts(X509 *certificate, const struct ts_cluster_nodes *nodes)
{
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	if (!out)
		return false;
	for (uint32_t i = 0; i < nodes->count; i++) {
		const char *host = nodes->servers[i].host;
		if (is_new(nodes, i))
			(void)fprintf(out, "%s%s:%s", i == 0 ? "" : ",",
				ts_cluster_is_address(host) ? "IP" : "DNS", host);
	}
	bool added = fclose(out) == 0 && add(certificate, NID_subject_alt_name, text);
	free(text);
	return added;
}

static bool add_extensions(X509 *certificate, const struct ts_cluster_nodes *nodes)
{
	return add(certificate, NID_basic_constraints, "critical,CA:TRUE") &&
	       add(certificate, NID_key_usage, "critical,digitalSignature,keyCertSign") &&
	       add(certificate, NID_ext_key_usage, "serverAuth,clientAuth") &&
	       add(certificate, NID_subject_key_identifier, "hash") &&
	       add_hosts(certificate, nodes);
}

static bool fill(X509 *certificate, EVP_PKEY *key, const struct ts_cluster_nodes *nodes)
{
	X509_NAME *name = X509_get_subject_name(certificate);
	uint64_t serial;

	if (RAND_bytes((unsigned char *)&serial, sizeof(serial)) != 1)
		return false;
	serial >>= 1; /* positive */
	return X509_set_version(certificate, X509_VERSION_3) == 1 &&
	       ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate), serial) == 1 &&
	       /* The clocks of nodes differ. */
	       X509_gmtime_adj(X509_getm_notBefore(certificate), -DAY) &&
	       X509_gmtime_adj(X509_getm_notAfter(certificate), HELD) &&
	       X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
		       (const unsigned char *)"tsshim cluster", -1, -1, 0) == 1 &&
	       X509_set_issuer_name(certificate, name) == 1 &&
	       X509_set_pubkey(certificate, key) == 1 && add_extensions(certificate, nodes) &&
	       X509_sign(certificate, key, EVP_sha256()) > 0;
}

int ts_certificate_make(const struct ts_cluster_nodes *nodes, const char *key, size_t bytes,
	char **ret_text, size_t *ret_bytes)
{
	EVP_PKEY *own = read_key(key, bytes);
	X509 *certificate = X509_new();
	BIO *bio = BIO_new(BIO_s_mem());
	int r = own ? -ENOTSUP : -EINVAL;

	if (own && certificate && bio && fill(certificate, own, nodes) &&
		PEM_write_bio_X509(bio, certificate) == 1)
		r = take_text(bio, ret_text, ret_bytes);
	BIO_free(bio);
	X509_free(certificate);
	EVP_PKEY_free(own);
	return r;
}

/* ---- what is there already --------------------------------------------------------------- */

static bool has_hosts(X509 *certificate, const struct ts_cluster_nodes *nodes)
{
	for (uint32_t i = 0; i < nodes->count; i++) {
		const char *host = nodes->servers[i].host;
		int found = ts_cluster_is_address(host)
				    ? X509_check_ip_asc(certificate, host, 0)
				    : X509_check_host(certificate, host, 0, 0, NULL);
		if (found != 1)
			return false;
	}
	return true;
}

bool ts_certificate_fits(const struct ts_cluster_nodes *nodes, const char *key,
	size_t key_bytes, const char *text, size_t bytes)
{
	BIO *bio = BIO_new_mem_buf(text, (int)bytes);
	X509 *certificate = bio ? PEM_read_bio_X509(bio, NULL, NULL, (void *)"") : NULL;
	EVP_PKEY *own = read_key(key, key_bytes);
	bool fits = certificate && own && X509_check_private_key(certificate, own) == 1 &&
		    X509_cmp_current_time(X509_get0_notBefore(certificate)) < 0 &&
		    X509_cmp_current_time(X509_get0_notAfter(certificate)) > 0 &&
		    has_hosts(certificate, nodes);

	EVP_PKEY_free(own);
	X509_free(certificate);
	BIO_free(bio);
	return fits;
}

int ts_certificate_name(
	const struct ts_cluster_nodes *nodes, const char *key, size_t bytes, char ret_name[17])
{
	EVP_MD_CTX *hash = EVP_MD_CTX_new();
	EVP_PKEY *own = read_key(key, bytes);
	unsigned char *public = NULL, digest[EVP_MAX_MD_SIZE];
	int length = own ? i2d_PUBKEY(own, &public) : -1;
	bool made = hash && length > 0 && EVP_DigestInit_ex(hash, EVP_sha256(), NULL) == 1 &&
		    EVP_DigestUpdate(hash, public, (size_t)length) == 1;

	for (uint32_t i = 0; made && i < nodes->count; i++)
		made = EVP_DigestUpdate(hash, nodes->servers[i].host,
			       strlen(nodes->servers[i].host) + 1) == 1;
	made = made && EVP_DigestFinal_ex(hash, digest, NULL) == 1;
	for (size_t i = 0; made && i < 8; i++)
		(void)snprintf(ret_name + 2 * i, 3, "%02x", digest[i]);
	OPENSSL_free(public);
	EVP_PKEY_free(own);
	EVP_MD_CTX_free(hash);
	return made ? 0 : own ? -ENOTSUP : -EINVAL;
}
