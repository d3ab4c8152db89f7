/* SPDX-License-Identifier: MIT */
/* Reads the directory of a user's cluster: leader/peer/cluster.h says what is in it. */
#include "leader/peer/cluster_private.h"

#include "shim/config.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Longest file: a line for each server, with some room for comments. */
#define NODES_MAX ((size_t)TS_KETAMA_SERVERS * (TS_KETAMA_HOST + 64))
#define CONF_MAX  ((size_t)8192)

/* ---- nodes ------------------------------------------------------------------------------ */

bool ts_cluster_is_address(const char *host)
{
	struct in6_addr any;

	return inet_pton(AF_INET, host, &any) == 1 || inet_pton(AF_INET6, host, &any) == 1;
}

void ts_cluster_name_server(
	const struct ts_ketama_server *server, char ret_name[TS_CLUSTER_NAME])
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

	return length > 0 && length <= TS_KETAMA_HOST && strspn(host, letters) == length &&
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
static int parse_address(
	struct ts_cluster_reader *reader, char *word, struct ts_ketama_server *server)
{
	char *colon = strrchr(word, ':'), *host = word;

	if (!colon)
		return ts_cluster_fail(reader, "no port: a line is HOST:PORT");
	*colon = '\0';
	if (word[0] == '[') {
		if (colon == word + 1 || colon[-1] != ']')
			return ts_cluster_fail(reader, "an address of IPv6 is [address]:port");
		colon[-1] = '\0';
		host = word + 1;
		if (!strchr(host, ':') || !ts_cluster_is_address(host))
			return ts_cluster_fail(reader, "no address of IPv6 is in []");
	} else if (!is_name(host)) {
		return ts_cluster_fail(reader, strchr(host, ':')
						       ? "an address of IPv6 is [address]:port"
						       : "HOST is no name of a host");
	}
	server->host = host;
	server->port = (uint16_t)read_number(colon + 1, UINT16_MAX);
	return server->port ? 0 : ts_cluster_fail(reader, "the port is none of 1 to 65535");
}

static int parse_node(
	struct ts_cluster_reader *reader, char *line, struct ts_ketama_server *server)
{
	static const char weight[] = "weight=";
	char *more = line + strcspn(line, TS_CLUSTER_BLANKS);

	server->weight = 1;
	if (*more) {
		*more++ = '\0';
		more += strspn(more, TS_CLUSTER_BLANKS);
		if (strncmp(more, weight, strlen(weight)) != 0)
			return ts_cluster_fail(
				reader, "behind HOST:PORT only weight=N may stand");
		server->weight = read_number(more + strlen(weight), TS_CLUSTER_WEIGHT);
		if (!server->weight)
			return ts_cluster_fail(reader, "the weight is none of 1 to 65535");
	}
	return parse_address(reader, line, server);
}

static bool has_server(
	const struct ts_cluster_nodes *nodes, const struct ts_ketama_server *server)
{
	for (uint32_t i = 0; i < nodes->count; i++)
		if (nodes->servers[i].port == server->port &&
			strcmp(nodes->servers[i].host, server->host) == 0)
			return true;
	return false;
}

static int parse_nodes(struct ts_cluster_reader *reader, struct ts_cluster_nodes *nodes)
{
	char *line;

	while ((line = ts_cluster_next_line(reader))) {
		struct ts_ketama_server server;
		int r = parse_node(reader, line, &server);
		if (r < 0)
			return r;
		if (nodes->count == TS_KETAMA_SERVERS)
			return ts_cluster_fail(reader, "more servers than there may be (1024)");
		if (has_server(nodes, &server))
			return ts_cluster_fail(reader, "the same server twice");
		nodes->servers[nodes->count++] = server;
	}
	return nodes->count ? 0 : ts_cluster_fail(reader, "no server");
}

static int read_nodes(const char *path, bool foreign, struct ts_cluster_nodes *ret_nodes,
	struct ts_cluster_fault *fault)
{
	struct ts_cluster_nodes nodes = {0};
	struct ts_cluster_reader reader = {.fault = fault};
	int r = ts_cluster_read_file(path, foreign, NODES_MAX, &reader);

	if (r < 0)
		return r;
	nodes.text = reader.text;
	nodes.servers = calloc(TS_KETAMA_SERVERS, sizeof(*nodes.servers));
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

static int set_tls(
	struct ts_cluster_reader *reader, const char *value, struct ts_cluster *cluster)
{
	if (strcmp(value, "on") != 0 && strcmp(value, "off") != 0)
		return ts_cluster_fail(reader, "tls is on or off");
	cluster->tls = strcmp(value, "on") == 0;
	return 0;
}

static int set_memory(
	struct ts_cluster_reader *reader, const char *value, struct ts_cluster *cluster)
{
	if (ts_config_parse_size(value, &cluster->memory_bytes) < 0 ||
		cluster->memory_bytes == 0)
		return ts_cluster_fail(reader, "memory is a size such as 64G");
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

static int set_nvme(
	struct ts_cluster_reader *reader, const char *value, struct ts_cluster *cluster)
{
	if (ts_cluster_parse_nvme(value, cluster->nvme, &cluster->nvme_bytes) == 0)
		return 0;
	return ts_cluster_fail(reader,
		"nvme is the absolute path of a file and a size, as in /local/cache:500G");
}

static int parse_setting(
	struct ts_cluster_reader *reader, char *line, struct ts_cluster *cluster)
{
	static const struct {
		const char *name;
		int (*set)(struct ts_cluster_reader *, const char *, struct ts_cluster *);
	} settings[] = {{"tls", set_tls}, {"memory", set_memory}, {"nvme", set_nvme}};
	char *value = strchr(line, '=');

	if (!value)
		return ts_cluster_fail(reader, "a line is NAME = VALUE");
	*value++ = '\0';
	value += strspn(value, TS_CLUSTER_BLANKS);
	line[strcspn(line, TS_CLUSTER_BLANKS)] = '\0';
	for (size_t i = 0; i < TS_ARRAY_SIZE(settings); i++)
		if (strcmp(line, settings[i].name) == 0)
			return settings[i].set(reader, value, cluster);
	return ts_cluster_fail(reader, "unknown: there are tls, memory and nvme");
}

static int read_conf(
	const char *path, struct ts_cluster *cluster, struct ts_cluster_fault *fault)
{
	struct ts_cluster_reader reader = {.fault = fault};
	char *line;
	int r = ts_cluster_read_file(path, false, CONF_MAX, &reader);

	if (r == -ENOENT)
		return 0;
	while (r == 0 && (line = ts_cluster_next_line(&reader)))
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
	int r = ts_cluster_check_file(directory, S_IFDIR, S_IRWXG | S_IRWXO, fault);

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
		r = ts_cluster_check_file(cluster->secret, S_IFREG, S_IRWXG | S_IRWXO, fault);
	if (r == 0)
		r = ts_cluster_path(directory, "cert.pem", cluster->certificate);
	if (r == 0)
		r = ts_cluster_path(directory, "key.pem", cluster->key);
	if (r == 0 && cluster->tls)
		r = ts_cluster_check_file(
			cluster->certificate, S_IFREG, S_IWGRP | S_IWOTH, fault);
	if (r == 0 && cluster->tls)
		r = ts_cluster_check_file(cluster->key, S_IFREG, S_IRWXG | S_IRWXO, fault);
	return r;
}

int ts_cluster_read(const char *directory, struct ts_cluster **ret_cluster,
	struct ts_cluster_fault *ret_fault)
{
	struct ts_cluster_fault fault;
	struct ts_cluster *cluster = calloc(1, sizeof(*cluster));
	int r = ts_cluster_begin(&fault, directory);

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
