/* SPDX-License-Identifier: MIT */
/* Reads the directory of a user's cluster: leader/peer/cluster.h says what is in it. */
#include "leader/peer/cluster.h"

#include "shim/config.h"
#include "shim/sys.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLANKS " \t\r"

/* Longest file: a line for each server, with some room for comments. */
#define NODES_MAX ((size_t)TS_CLUSTER_SERVERS * (TS_CLUSTER_HOST + 64))
#define CONF_MAX  ((size_t)8192)

/* ---- files: whose they are, and their lines ------------------------------------------------
 */

/* A file while it is read. */
struct reader {
	struct ts_cluster_fault *fault;
	char *text, *next; /* of the line behind; the text is the caller's to free */
};

/* What is wrong in the line that is read; returns -EINVAL. */
static int reject(struct reader *reader, const char *text)
{
	reader->fault->text = text;
	return -EINVAL;
}

/* Errors: -EPERM of another user, or others may do what is among the bits of @closed. */
static int check_owner(int fd, mode_t type, mode_t closed, struct ts_cluster_fault *fault)
{
	struct stat st;
	int r = ts_sys_fstat(fd, &st);

	if (r < 0)
		return r;
	if ((st.st_mode & S_IFMT) != type) {
		fault->text = "no regular file"; /* a directory was opened as one */
		return -EINVAL;
	}
	if (st.st_uid != geteuid()) {
		fault->text = "belongs to another user";
		return -EPERM;
	}
	if (st.st_mode & closed) {
		fault->text = closed & S_IRGRP ? "others may read or write it"
					       : "others may write it";
		return -EPERM;
	}
	return 0;
}

/* From here on it is the file @path that is at fault.  Errors: -ENAMETOOLONG. */
static int begin(struct ts_cluster_fault *fault, const char *path)
{
	*fault = (struct ts_cluster_fault){.text = ""};
	if (snprintf(fault->file, sizeof(fault->file), "%s", path) >= (int)sizeof(fault->file))
		return -ENAMETOOLONG;
	return 0;
}

/* Not blocking: it may be a pipe that nobody writes to. */
static int open_file(const char *path, int flags)
{
	return ts_sys_open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | flags, 0);
}

/* Look at the file @path, which is of @type.  Errors: of check_owner() and open(2). */
static int check_file(
	const char *path, mode_t type, mode_t closed, struct ts_cluster_fault *fault)
{
	int r = begin(fault, path);
	int fd = r < 0 ? r : open_file(path, type == S_IFDIR ? O_DIRECTORY : O_NOFOLLOW);

	if (fd < 0)
		return fd;
	r = check_owner(fd, type, closed, fault);
	ts_sys_close(fd);
	return r;
}

static int read_text(int fd, size_t max, struct ts_cluster_fault *fault, char **ret_text)
{
	char *text = malloc(max + 2);
	size_t bytes = 0;
	int64_t n = text ? 1 : -ENOMEM;

	while (n > 0 && bytes <= max) {
		n = ts_sys_read(fd, text + bytes, max + 1 - bytes);
		bytes += n > 0 ? (size_t)n : 0;
	}
	if (n >= 0 && (bytes > max || memchr(text, '\0', bytes))) {
		fault->text = bytes > max ? "too long" : "no text";
		n = -EINVAL;
	}
	if (n < 0) {
		free(text);
		return (int)n;
	}
	text[bytes] = '\0';
	*ret_text = text;
	return 0;
}

/* The text of a file of @max bytes at most that nobody else may write, or with @foreign of any.
 */
static int read_file(const char *path, bool foreign, size_t max, struct reader *reader)
{
	int r = begin(reader->fault, path);
	int fd = r < 0 ? r : open_file(path, foreign ? 0 : O_NOFOLLOW);

	if (fd < 0)
		return fd;
	if (!foreign)
		r = check_owner(fd, S_IFREG, S_IWGRP | S_IWOTH, reader->fault);
	if (r == 0)
		r = read_text(fd, max, reader->fault, &reader->text);
	ts_sys_close(fd);
	if (r == 0)
		reader->next = reader->text;
	return r;
}

/* The next line that says something, without blanks around it and comment; NULL: the end. */
static char *next_line(struct reader *reader)
{
	while (*reader->next) {
		char *line = reader->next;
		size_t length = strcspn(line, "\n");

		reader->next = line + length + (line[length] == '\n');
		line[length] = '\0';
		reader->fault->line++;
		line[strcspn(line, "#")] = '\0';
		line += strspn(line, BLANKS);
		length = strlen(line);
		while (length > 0 && strchr(BLANKS, line[length - 1]))
			line[--length] = '\0';
		if (length > 0)
			return line;
	}
	reader->fault->line = 0;
	return NULL;
}

/* ---- nodes ------------------------------------------------------------------------------ */

bool ts_cluster_is_address(const char *host)
{
	struct in6_addr any;

	return inet_pton(AF_INET, host, &any) == 1 || inet_pton(AF_INET6, host, &any) == 1;
}

void ts_cluster_name_server(
	const struct ts_cluster_server *server, char ret_name[TS_CLUSTER_NAME])
{
	bool bracket = strchr(server->host, ':') != NULL;

	(void)snprintf(ret_name, TS_CLUSTER_NAME, "%s%s%s:%u", bracket ? "[" : "", server->host,
		bracket ? "]" : "", server->port);
}

static bool is_name(const char *host)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789.-_";
	size_t length = strlen(host);

	return length > 0 && length <= TS_CLUSTER_HOST && strspn(host, letters) == length &&
	       host[0] != '-' && host[0] != '.';
}

/* Decimal digits and nothing else; 0: none of 1 to @max. */
static uint32_t read_number(const char *text, uint32_t max)
{
	uint64_t number = 0;

	for (const char *at = text; *at; at++) {
		if (*at < '0' || *at > '9' || number > max)
			return 0;
		number = number * 10 + (uint64_t)(*at - '0');
	}
	return number <= max ? (uint32_t)number : 0;
}

/* HOST:PORT; cut apart where it stands. */
static int parse_address(struct reader *reader, char *word, struct ts_cluster_server *server)
{
	char *colon = strrchr(word, ':'), *host = word;

	if (!colon)
		return reject(reader, "no port: a line is HOST:PORT");
	*colon = '\0';
	if (word[0] == '[') {
		if (colon == word + 1 || colon[-1] != ']')
			return reject(reader, "an address of IPv6 is [address]:port");
		colon[-1] = '\0';
		host = word + 1;
		if (!strchr(host, ':') || !ts_cluster_is_address(host))
			return reject(reader, "no address of IPv6 is in []");
	} else if (!is_name(host)) {
		return reject(reader, strchr(host, ':') ? "an address of IPv6 is [address]:port"
							: "HOST is no name of a host");
	}
	server->host = host;
	server->port = (uint16_t)read_number(colon + 1, UINT16_MAX);
	return server->port ? 0 : reject(reader, "the port is none of 1 to 65535");
}

static int parse_node(struct reader *reader, char *line, struct ts_cluster_server *server)
{
	static const char weight[] = "weight=";
	char *more = line + strcspn(line, BLANKS);

	server->weight = 1;
	if (*more) {
		*more++ = '\0';
		more += strspn(more, BLANKS);
		if (strncmp(more, weight, strlen(weight)) != 0)
			return reject(reader, "behind HOST:PORT only weight=N may stand");
		server->weight = read_number(more + strlen(weight), TS_CLUSTER_WEIGHT);
		if (!server->weight)
			return reject(reader, "the weight is none of 1 to 65535");
	}
	return parse_address(reader, line, server);
}

static bool has_server(
	const struct ts_cluster_nodes *nodes, const struct ts_cluster_server *server)
{
	for (uint32_t i = 0; i < nodes->count; i++)
		if (nodes->servers[i].port == server->port &&
			strcmp(nodes->servers[i].host, server->host) == 0)
			return true;
	return false;
}

static int parse_nodes(struct reader *reader, struct ts_cluster_nodes *nodes)
{
	char *line;

	while ((line = next_line(reader))) {
		struct ts_cluster_server server;
		int r = parse_node(reader, line, &server);
		if (r < 0)
			return r;
		if (nodes->count == TS_CLUSTER_SERVERS)
			return reject(reader, "more servers than there may be (1024)");
		if (has_server(nodes, &server))
			return reject(reader, "the same server twice");
		nodes->servers[nodes->count++] = server;
	}
	return nodes->count ? 0 : reject(reader, "no server");
}

static int read_nodes(const char *path, bool foreign, struct ts_cluster_nodes *ret_nodes,
	struct ts_cluster_fault *fault)
{
	struct ts_cluster_nodes nodes = {0};
	struct reader reader = {.fault = fault};
	int r = read_file(path, foreign, NODES_MAX, &reader);

	if (r < 0)
		return r;
	nodes.text = reader.text;
	nodes.servers = calloc(TS_CLUSTER_SERVERS, sizeof(*nodes.servers));
	r = nodes.servers ? parse_nodes(&reader, &nodes) : -ENOMEM;
	if (r < 0)
		ts_cluster_finish_nodes(&nodes);
	else
		*ret_nodes = nodes;
	return r;
}

int ts_cluster_read_nodes(const char *path, struct ts_cluster_nodes *ret_nodes,
	struct ts_cluster_fault *ret_fault)
{
	struct ts_cluster_fault fault;
	int r = read_nodes(path, true, ret_nodes, &fault);

	if (r < 0)
		*ret_fault = fault;
	return r;
}

void ts_cluster_finish_nodes(struct ts_cluster_nodes *nodes)
{
	free(nodes->servers);
	free(nodes->text);
	*nodes = (struct ts_cluster_nodes){0};
}

/* ---- cluster.conf ----------------------------------------------------------------------- */

static int set_tls(struct reader *reader, const char *value, struct ts_cluster *cluster)
{
	if (strcmp(value, "on") != 0 && strcmp(value, "off") != 0)
		return reject(reader, "tls is on or off");
	cluster->tls = strcmp(value, "on") == 0;
	return 0;
}

static int set_memory(struct reader *reader, const char *value, struct ts_cluster *cluster)
{
	if (ts_config_parse_size(value, &cluster->memory_bytes) < 0 ||
		cluster->memory_bytes == 0)
		return reject(reader, "memory is a size such as 64G");
	return 0;
}

int ts_cluster_parse_nvme(const char *value, char ret_path[PATH_MAX], uint64_t *ret_bytes)
{
	const char *colon = strrchr(value, ':');
	uint64_t bytes;

	/* A comma would end it among the options of memcached. */
	if (value[0] != '/' || !colon || colon - value >= PATH_MAX ||
		strcspn(value, ",:") != (size_t)(colon - value) ||
		ts_config_parse_size(colon + 1, &bytes) < 0 || bytes == 0)
		return -EINVAL;
	memcpy(ret_path, value, (size_t)(colon - value));
	ret_path[colon - value] = '\0';
	*ret_bytes = bytes;
	return 0;
}

static int set_nvme(struct reader *reader, const char *value, struct ts_cluster *cluster)
{
	if (ts_cluster_parse_nvme(value, cluster->nvme, &cluster->nvme_bytes) == 0)
		return 0;
	return reject(reader,
		"nvme is the absolute path of a file and a size, as in /local/cache:500G");
}

static int parse_setting(struct reader *reader, char *line, struct ts_cluster *cluster)
{
	static const struct {
		const char *name;
		int (*set)(struct reader *, const char *, struct ts_cluster *);
	} settings[] = {{"tls", set_tls}, {"memory", set_memory}, {"nvme", set_nvme}};
	char *value = strchr(line, '=');

	if (!value)
		return reject(reader, "a line is NAME = VALUE");
	*value++ = '\0';
	value += strspn(value, BLANKS);
	line[strcspn(line, BLANKS)] = '\0';
	for (size_t i = 0; i < TS_ARRAY_SIZE(settings); i++)
		if (strcmp(line, settings[i].name) == 0)
			return settings[i].set(reader, value, cluster);
	return reject(reader, "unknown: there are tls, memory and nvme");
}

static int read_conf(
	const char *path, struct ts_cluster *cluster, struct ts_cluster_fault *fault)
{
	struct reader reader = {.fault = fault};
	char *line;
	int r = read_file(path, false, CONF_MAX, &reader);

	if (r == -ENOENT)
		return 0;
	while (r == 0 && (line = next_line(&reader)))
		r = parse_setting(&reader, line, cluster);
	free(reader.text);
	return r;
}

/* ---- the directory ---------------------------------------------------------------------- */

int ts_cluster_path(const char *directory, const char *name, char ret_path[PATH_MAX])
{
	char path[PATH_MAX];
	int length = snprintf(path, sizeof(path), "%s/%s", directory, name);

	if (length >= PATH_MAX)
		return -ENAMETOOLONG;
	memcpy(ret_path, path, (size_t)length + 1);
	return 0;
}

static int read_settings(
	const char *directory, struct ts_cluster *cluster, struct ts_cluster_fault *fault)
{
	char path[PATH_MAX];
	int r = check_file(directory, S_IFDIR, S_IRWXG | S_IRWXO, fault);

	cluster->tls = true;
	if (r == 0)
		r = ts_cluster_path(directory, "cluster.conf", path);
	if (r == 0)
		r = read_conf(path, cluster, fault);
	return r;
}

int ts_cluster_read_settings(const char *directory, struct ts_cluster *ret_cluster,
	struct ts_cluster_fault *ret_fault)
{
	struct ts_cluster_fault fault;
	int r = read_settings(directory, ret_cluster, &fault);

	if (r < 0)
		*ret_fault = fault;
	return r;
}

static int read_all(
	const char *directory, struct ts_cluster *cluster, struct ts_cluster_fault *fault)
{
	char path[PATH_MAX];
	int r = read_settings(directory, cluster, fault);

	if (r == 0)
		r = ts_cluster_path(directory, "nodes", path);
	if (r == 0)
		r = read_nodes(path, false, &cluster->nodes, fault);
	if (r == 0)
		r = ts_cluster_path(directory, "secret", cluster->secret);
	if (r == 0)
		r = check_file(cluster->secret, S_IFREG, S_IRWXG | S_IRWXO, fault);
	if (r == 0)
		r = ts_cluster_path(directory, "cert.pem", cluster->certificate);
	if (r == 0)
		r = ts_cluster_path(directory, "key.pem", cluster->key);
	if (r == 0 && cluster->tls)
		r = check_file(cluster->certificate, S_IFREG, S_IWGRP | S_IWOTH, fault);
	if (r == 0 && cluster->tls)
		r = check_file(cluster->key, S_IFREG, S_IRWXG | S_IRWXO, fault);
	return r;
}

int ts_cluster_read(const char *directory, struct ts_cluster **ret_cluster,
	struct ts_cluster_fault *ret_fault)
{
	struct ts_cluster_fault fault;
	struct ts_cluster *cluster = calloc(1, sizeof(*cluster));
	int r = begin(&fault, directory);

	if (!cluster)
		r = -ENOMEM;
	if (r == 0)
		r = read_all(directory, cluster, &fault);
	if (r < 0) {
		ts_cluster_destroy(cluster);
		*ret_fault = fault;
		return r;
	}
	*ret_cluster = cluster;
	return 0;
}

void ts_cluster_destroy(struct ts_cluster *cluster)
{
	if (!cluster)
		return;
	ts_cluster_finish_nodes(&cluster->nodes);
	free(cluster);
}

/* ---- whether it is what it was ---------------------------------------------------------- */

#define DIRECTORY 0 /* places in watched_names */
#define SECRET    1

static const char *const watched_names[TS_CLUSTER_WATCHED] = {
	"", "secret", "nodes", "cluster.conf", "cert.pem", "key.pem"};

static struct ts_cluster_stamp stamp_of(const char *path, bool is_directory)
{
	struct stat st;

	if (ts_sys_lstat(path, &st) < 0)
		return (struct ts_cluster_stamp){.inode = 0};
	struct ts_cluster_stamp stamp = {.device = st.st_dev, .inode = st.st_ino};
	/* Those of a directory change with each file that is exchanged. */
	if (!is_directory) {
		stamp.bytes = (uint64_t)st.st_size;
		stamp.changed = st.st_ctim;
	}
	return stamp;
}

static bool is_same(const struct ts_cluster_stamp *one, const struct ts_cluster_stamp *other)
{
	return one->device == other->device && one->inode == other->inode &&
	       one->bytes == other->bytes && one->changed.tv_sec == other->changed.tv_sec &&
	       one->changed.tv_nsec == other->changed.tv_nsec;
}

int ts_cluster_watch_init(struct ts_cluster_watch *watch, const char *directory)
{
	if (strlen(directory) >= sizeof(watch->paths[DIRECTORY]))
		return -ENAMETOOLONG;
	memcpy(watch->paths[DIRECTORY], directory, strlen(directory) + 1);
	for (int i = 0; i < TS_CLUSTER_WATCHED; i++) {
		int r = i == DIRECTORY
				? 0
				: ts_cluster_path(directory, watched_names[i], watch->paths[i]);
		if (r < 0)
			return r;
		watch->stamps[i] = stamp_of(watch->paths[i], i == DIRECTORY);
	}
	return 0;
}

int ts_cluster_watch_look(struct ts_cluster_watch *watch, bool *ret_is_other_secret)
{
	for (int i = 0; i < TS_CLUSTER_WATCHED; i++) {
		struct ts_cluster_stamp now = stamp_of(watch->paths[i], i == DIRECTORY);
		if (i == DIRECTORY && now.inode == 0)
			return -ENOENT;
		if (i == SECRET)
			watch->secret = now;
		else if (!is_same(&now, &watch->stamps[i]))
			return -ESTALE;
	}
	*ret_is_other_secret = !is_same(&watch->secret, &watch->stamps[SECRET]);
	return 0;
}

void ts_cluster_watch_took_secret(struct ts_cluster_watch *watch)
{
	watch->stamps[SECRET] = watch->secret;
}
