/* SPDX-License-Identifier: MIT */
/* The directory of a cluster and what is in it, made where it is missing. */
#include "leader/peer/make.h"

#include "leader/peer/secret.h"
#include "shim/sys.h"

#include <fcntl.h>
#include <inttypes.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define KEY_MAX 8192u

/* Longest text of a certificate: some 350 bytes for each of the longest names. */
#define CERTIFICATE_MAX (512u << 10)

#define DAY  86400L
#define HELD (10L * 365L * DAY)

/* One each ten years, or where somebody has damaged one. */
#define CERTIFICATES 8u

#define SETTLE_NS   UINT64_C(5000000000) /* until what another node has made is seen here */
#define SETTLE_STEP 50000000L

/* What is being made, and which file is in hand. */
struct maker {
	const char *directory;
	const struct ts_cluster_nodes *nodes;
	char path[PATH_MAX];
	char *key; /* text of key.pem */
	size_t key_bytes;
};

static int select_file(struct maker *maker, const char *name)
{
	return ts_cluster_path(maker->directory, name, maker->path);
}

/* ---- files that several nodes make at once --------------------------------------------------
 *
 * Without a lock: each makes one of its own, and one of them gets the name.  Whoever is killed
 * leaves a file with ".new." in its name and nothing else.
 */

enum how {
	PLACE_FIRST,   /* only where there is none */
	PLACE_REPLACE, /* in the place of whatever is there */
};

static int write_all(int fd, const char *text, size_t bytes)
{
	while (bytes > 0) {
		int64_t n = ts_sys_write(fd, text, bytes);
		if (n < 0 && n != -EINTR)
			return (int)n;
		text += n > 0 ? n : 0;
		bytes -= n > 0 ? (size_t)n : 0;
	}
	/* Another node must not find a name without its bytes, whatever happens to this one. */
	return fsync(fd) < 0 ? -errno : 0;
}

/* Give @from the name @path; it has no other one afterwards. */
static int give_name(const char *from, const char *path, enum how how)
{
	int r;

	if (how == PLACE_REPLACE) {
		r = ts_sys_rename(from, path);
		if (r == 0)
			return 0;
	} else {
		r = ts_sys_link(from, path, 0);
	}
	(void)ts_sys_unlink(from);
	return r;
}

/*
 * Make the file @path of @bytes at @text, mode 0600, at once and as a whole.  Errors: -EEXIST
 * there is one (PLACE_FIRST); -ENAMETOOLONG; those of the system calls.
 */
static int place(const char *path, const void *text, size_t bytes, enum how how)
{
	char own[PATH_MAX];
	uint64_t random;

	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		return -EIO;
	if (snprintf(own, sizeof(own), "%s.new.%016" PRIx64, path, random) >= (int)sizeof(own))
		return -ENAMETOOLONG;
	int fd = ts_sys_open(own, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return fd;
	int r = write_all(fd, text, bytes);
	ts_sys_close(fd);
	if (r == 0)
		return give_name(own, path, how);
	(void)ts_sys_unlink(own);
	return r;
}

static int64_t read_open(int fd, size_t max, char **ret_text)
{
	struct stat st;
	int r = ts_sys_fstat(fd, &st);

	if (r < 0)
		return r;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	if ((uint64_t)st.st_size > max)
		return -EFBIG;
	char *text = malloc((size_t)st.st_size + 1);
	if (!text)
		return -ENOMEM;
	r = ts_sys_read_all(fd, text, (uint64_t)st.st_size, 0);
	if (r < 0) {
		OPENSSL_cleanse(text, (size_t)st.st_size);
		free(text);
		return r;
	}
	text[st.st_size] = '\0';
	*ret_text = text;
	return st.st_size;
}

/*
 * Read the whole file @path, of at most @max bytes, NUL behind them; the caller frees
 * *ret_text. Returns its bytes.  Errors: those of open(2); -EINVAL no regular file; -EFBIG;
 * -ENOMEM.
 */
static int64_t read_whole(const char *path, size_t max, char **ret_text)
{
	int fd =
		ts_sys_open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0);

	if (fd < 0)
		return fd;
	int64_t r = read_open(fd, max, ret_text);
	ts_sys_close(fd);
	return r;
}

/* Somebody else was first: as good. */
static int first_of(int r)
{
	return r == -EEXIST ? 0 : r;
}

static bool is_there(const char *path)
{
	struct stat st;

	return ts_sys_lstat(path, &st) == 0;
}

/* ---- the certificate ------------------------------------------------------------------------
 *
 * Self-signed, its own authority, with all hosts of the list as names.  Servers show it,
 * clients show it, and both trust nothing else; so who has its key is one of us.  It holds from
 * yesterday for ten years.
 */

/* Free @bytes of text and leave nothing of them in memory. */
static void free_text(char *text, size_t bytes)
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

static EVP_PKEY *parse_key(const char *text, size_t bytes)
{
	BIO *bio = BIO_new_mem_buf(text, (int)bytes);
	/* Without this a key with a password would ask for it. */
	EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, NULL, (void *)"") : NULL;

	BIO_free(bio);
	return key;
}

/* A new key on the curve P-256, as text in PEM, a secret.  Errors: -ENOTSUP libcrypto does not
 * do it. */
static int make_key_text(char **ret_text, size_t *ret_bytes)
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

static bool fill_certificate(
	X509 *certificate, EVP_PKEY *key, const struct ts_cluster_nodes *nodes)
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

/* One for the hosts of @nodes with the key @key.  Errors: -EINVAL no key; -ENOTSUP as above. */
static int make_certificate_text(const struct ts_cluster_nodes *nodes, const char *key,
	size_t bytes, char **ret_text, size_t *ret_bytes)
{
	EVP_PKEY *own = parse_key(key, bytes);
	X509 *certificate = X509_new();
	BIO *bio = BIO_new(BIO_s_mem());
	int r = own ? -ENOTSUP : -EINVAL;

	if (own && certificate && bio && fill_certificate(certificate, own, nodes) &&
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

/* Whether @text is a certificate of @key that holds now and is for all hosts of @nodes. */
static bool certificate_fits(const struct ts_cluster_nodes *nodes, const char *key,
	size_t key_bytes, const char *text, size_t bytes)
{
	BIO *bio = BIO_new_mem_buf(text, (int)bytes);
	X509 *certificate = bio ? PEM_read_bio_X509(bio, NULL, NULL, (void *)"") : NULL;
	EVP_PKEY *own = parse_key(key, key_bytes);
	bool fits = certificate && own && X509_check_private_key(certificate, own) == 1 &&
		    X509_cmp_current_time(X509_get0_notBefore(certificate)) < 0 &&
		    X509_cmp_current_time(X509_get0_notAfter(certificate)) > 0 &&
		    has_hosts(certificate, nodes);

	EVP_PKEY_free(own);
	X509_free(certificate);
	BIO_free(bio);
	return fits;
}

/* A name for the certificate of these hosts and that key: 16 digits.  Errors: as above. */
static int name_certificate(
	const struct ts_cluster_nodes *nodes, const char *key, size_t bytes, char ret_name[17])
{
	EVP_MD_CTX *hash = EVP_MD_CTX_new();
	EVP_PKEY *own = parse_key(key, bytes);
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

/* ---- secret and settings ---------------------------------------------------------------- */

static int make_secret(struct maker *maker)
{
	unsigned char secret[TS_SECRET_BYTES];
	char text[2 * TS_SECRET_BYTES + 2];
	int r = select_file(maker, "secret");

	if (r < 0 || is_there(maker->path))
		return r;
	if (getrandom(secret, sizeof(secret), 0) != sizeof(secret))
		return -EIO;
	for (size_t i = 0; i < sizeof(secret); i++)
		(void)snprintf(text + 2 * i, 3, "%02x", secret[i]);
	memcpy(text + sizeof(text) - 2, "\n", 2);
	r = first_of(place(maker->path, text, sizeof(text) - 1, PLACE_FIRST));
	OPENSSL_cleanse(secret, sizeof(secret));
	OPENSSL_cleanse(text, sizeof(text));
	return r;
}

static int make_settings(struct maker *maker)
{
	static const char off[] = "tls = off\n";
	int r = select_file(maker, "cluster.conf");

	if (r < 0 || is_there(maker->path))
		return r;
	/* A cluster that has TLS already keeps it. */
	r = select_file(maker, "cert.pem");
	if (r == 0 && is_there(maker->path))
		return -EEXIST;
	r = select_file(maker, "cluster.conf");
	return r < 0 ? r : first_of(place(maker->path, off, strlen(off), PLACE_FIRST));
}

/* ---- TLS --------------------------------------------------------------------------------- */

static int read_key(struct maker *maker)
{
	int64_t r = select_file(maker, "key.pem");

	if (r == 0)
		r = read_whole(maker->path, KEY_MAX, &maker->key);
	if (r >= 0)
		maker->key_bytes = (size_t)r;
	return r < 0 ? (int)r : 0;
}

static int make_key(struct maker *maker)
{
	char *text;
	size_t bytes;
	int r = read_key(maker);

	if (r != -ENOENT)
		return r;
	r = make_key_text(&text, &bytes);
	if (r < 0)
		return r;
	r = first_of(place(maker->path, text, bytes, PLACE_FIRST));
	free_text(text, bytes);
	return r < 0 ? r : read_key(maker);
}

/* Whether the certificate in hand is one for our hosts. */
static bool has_fitting(struct maker *maker, char **ret_text, size_t *ret_bytes)
{
	int64_t bytes = read_whole(maker->path, CERTIFICATE_MAX, ret_text);

	if (bytes < 0)
		return false;
	*ret_bytes = (size_t)bytes;
	if (certificate_fits(maker->nodes, maker->key, maker->key_bytes, *ret_text, *ret_bytes))
		return true;
	free(*ret_text);
	*ret_text = NULL;
	return false;
}

/*
 * The one under the file's name that is in hand: whoever is the first to give it that name has
 * made it for all.  Errors: -ESTALE it does not fit.
 */
static int make_first(struct maker *maker, char **ret_text, size_t *ret_bytes)
{
	/* Asked first: one that comes between the two looks is not said to be unfit. */
	bool was_there = is_there(maker->path);
	char *text;
	size_t bytes;

	if (has_fitting(maker, ret_text, ret_bytes))
		return 0;
	if (was_there)
		return -ESTALE;
	int r = make_certificate_text(
		maker->nodes, maker->key, maker->key_bytes, &text, &bytes);
	if (r < 0)
		return r;
	r = first_of(place(maker->path, text, bytes, PLACE_FIRST));
	free(text);
	return r < 0 ? r : has_fitting(maker, ret_text, ret_bytes) ? 0 : -ESTALE;
}

/*
 * Make one under the name that it has on all nodes, so that all who make one agree on it.  One
 * that has ended is never replaced, for another node may just have done so and begun with its
 * own: its successor has the next number.
 */
static int make_named(struct maker *maker, char **ret_text, size_t *ret_bytes)
{
	char name[17], file[40];
	int r = name_certificate(maker->nodes, maker->key, maker->key_bytes, name);

	if (r < 0)
		return r;
	r = -ESTALE;
	for (unsigned i = 0; i < CERTIFICATES && r == -ESTALE; i++) {
		(void)snprintf(file, sizeof(file), "cert-%s.%u.pem", name, i);
		r = select_file(maker, file);
		if (r == 0)
			r = make_first(maker, ret_text, ret_bytes);
	}
	return r;
}

static int make_certificate(struct maker *maker)
{
	char *text = NULL;
	size_t bytes;
	int r = make_key(maker);

	if (r == 0)
		r = select_file(maker, "cert.pem");
	if (r < 0)
		return r;
	if (!has_fitting(maker, &text, &bytes)) {
		r = make_named(maker, &text, &bytes);
		if (r == 0)
			r = select_file(maker, "cert.pem");
		if (r == 0)
			r = place(maker->path, text, bytes, PLACE_REPLACE);
	}
	free(text);
	return r;
}

/* ---- the list ---------------------------------------------------------------------------- */

static int write_list(const struct ts_cluster_nodes *nodes, char **ret_text, size_t *ret_bytes)
{
	FILE *out = open_memstream(ret_text, ret_bytes);

	if (!out)
		return -ENOMEM;
	for (uint32_t i = 0; i < nodes->count; i++) {
		const struct ts_cluster_server *server = &nodes->servers[i];
		char name[TS_CLUSTER_NAME];
		ts_cluster_name_server(server, name);
		(void)fputs(name, out);
		if (server->weight != 1)
			(void)fprintf(out, " weight=%u", server->weight);
		(void)fputc('\n', out);
	}
	return fclose(out) == 0 ? 0 : -ENOMEM;
}

static bool is_same(const struct ts_cluster_nodes *a, const struct ts_cluster_nodes *b)
{
	if (a->count != b->count)
		return false;
	for (uint32_t i = 0; i < a->count; i++)
		if (strcmp(a->servers[i].host, b->servers[i].host) != 0 ||
			a->servers[i].port != b->servers[i].port ||
			a->servers[i].weight != b->servers[i].weight)
			return false;
	return true;
}

/* Last of all: who sees a list finds all the rest. */
static int make_list(struct maker *maker)
{
	struct ts_cluster_nodes there;
	struct ts_cluster_fault fault;
	char *text = NULL;
	size_t bytes;
	int r = select_file(maker, "nodes");

	if (r == 0 && ts_cluster_read_nodes(maker->path, &there, &fault) == 0) {
		bool same = is_same(&there, maker->nodes);
		ts_cluster_finish_nodes(&there);
		if (same)
			return 0;
	}
	if (r == 0)
		r = write_list(maker->nodes, &text, &bytes);
	if (r == 0)
		r = place(maker->path, text, bytes, PLACE_REPLACE);
	free(text);
	return r;
}

/* ---- all of it --------------------------------------------------------------------------- */

static int make_all(struct maker *maker, bool tls, struct ts_cluster_fault *fault)
{
	struct ts_cluster *settings = calloc(1, sizeof(*settings));
	int r = settings ? ts_sys_mkdir(maker->directory, 0700) : -ENOMEM;

	if (r == -EEXIST)
		r = 0;
	if (r == 0 && !tls)
		r = make_settings(maker);
	if (r == 0)
		r = make_secret(maker);
	if (r == 0) {
		r = ts_cluster_read_settings(maker->directory, settings, fault);
		if (r < 0)
			(void)snprintf(maker->path, sizeof(maker->path), "%s", fault->file);
	}
	if (r == 0 && settings->tls && !tls)
		r = -EEXIST;
	if (r == 0 && settings->tls)
		r = make_certificate(maker);
	if (r == 0)
		r = make_list(maker);
	free_text(maker->key, maker->key_bytes);
	free(settings);
	return r;
}

/* What another node has made may be seen here some seconds later (NFS). */
static int wait_for_all(const char *directory, struct ts_cluster_fault *fault)
{
	uint64_t until_ns = ts_now_ns() + SETTLE_NS;
	struct ts_cluster *cluster;
	int r;

	while ((r = ts_cluster_read(directory, &cluster, fault)) == -ENOENT &&
		ts_now_ns() < until_ns) {
		const struct timespec step = {.tv_nsec = SETTLE_STEP};
		(void)nanosleep(&step, NULL);
	}
	if (r == 0)
		ts_cluster_destroy(cluster);
	return r;
}

int ts_make_cluster(const char *directory, const struct ts_cluster_nodes *nodes, bool tls,
	struct ts_cluster_fault *ret_fault)
{
	struct ts_cluster_fault fault = {.text = ""};
	struct maker maker = {.directory = directory, .nodes = nodes};

	(void)snprintf(maker.path, sizeof(maker.path), "%s", directory);
	int r = make_all(&maker, tls, &fault);
	if (r < 0)
		(void)snprintf(fault.file, sizeof(fault.file), "%s", maker.path);
	else
		r = wait_for_all(directory, &fault);
	if (r < 0)
		*ret_fault = fault;
	return r;
}

int ts_make_tokens(const struct ts_cluster *cluster, const char *path)
{
	char text[TS_SECRETS_MAX * (TS_SECRET_TOKEN + 8)] = "", *there = NULL;
	struct ts_secrets secrets;
	int at = 0, r = ts_secrets_read(cluster->secret, &secrets);

	for (uint32_t i = 0; r == 0 && i < secrets.count; i++)
		at += snprintf(text + at, sizeof(text) - (size_t)at, "job:%s\n",
			secrets.keys[i].token);
	ts_secrets_finish(&secrets);
	if (r == 0) {
		int64_t bytes = read_whole(path, sizeof(text), &there);
		bool same = there && bytes == at && memcmp(there, text, (size_t)at) == 0;
		if (!same)
			r = place(path, text, (size_t)at, PLACE_REPLACE);
		free_text(there, bytes > 0 ? (size_t)bytes : 0);
		r = r < 0 ? r : !same;
	}
	OPENSSL_cleanse(text, sizeof(text));
	return r;
}
