/* SPDX-License-Identifier: MIT */
/* The directory of a cluster and what is in it, made where it is missing. */
#include "leader/peer/make.h"

#include "leader/peer/certificate.h"
#include "leader/peer/secret.h"
#include "shim/sys.h"

#include <fcntl.h>
#include <inttypes.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define KEY_MAX 8192u

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
	r = ts_certificate_make_key(&text, &bytes);
	if (r < 0)
		return r;
	r = first_of(place(maker->path, text, bytes, PLACE_FIRST));
	ts_certificate_free(text, bytes);
	return r < 0 ? r : read_key(maker);
}

/* Whether the certificate in hand is one for our hosts. */
static bool has_fitting(struct maker *maker, char **ret_text, size_t *ret_bytes)
{
	int64_t bytes = read_whole(maker->path, TS_CERTIFICATE_MAX, ret_text);

	if (bytes < 0)
		return false;
	*ret_bytes = (size_t)bytes;
	if (ts_certificate_fits(
		    maker->nodes, maker->key, maker->key_bytes, *ret_text, *ret_bytes))
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
	int r = ts_certificate_make(maker->nodes, maker->key, maker->key_bytes, &text, &bytes);
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
	int r = ts_certificate_name(maker->nodes, maker->key, maker->key_bytes, name);

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
	ts_certificate_free(maker->key, maker->key_bytes);
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
		bool same = bytes == at && memcmp(there, text, (size_t)at) == 0;
		if (!same)
			r = place(path, text, (size_t)at, PLACE_REPLACE);
		ts_certificate_free(there, bytes > 0 ? (size_t)bytes : 0);
		r = r < 0 ? r : !same;
	}
	OPENSSL_cleanse(text, sizeof(text));
	return r;
}
