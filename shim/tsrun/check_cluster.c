/* SPDX-License-Identifier: MIT */
/* Check of `tsrun doctor`: what TSSHIM_CLUSTER names, and this node's part of it. */
#include "leader/peer/cluster.h"
#include "shim/tsrun/check.h"
#include "shim/tsrun/child.h"
#include "shim/tsrun/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Looking names up takes the resolver seconds where it does not work. */
#define WITHIN_NS UINT64_C(60000000000)

struct cluster_check {
	struct ts_check *check;
	const char *directory;
	struct ts_cluster *cluster;
	char name[TS_CLUSTER_NAME]; /* of this node's server */
	char *text;                 /* what tsshim-secret says */
	size_t bytes;
};

static void check_programs(struct ts_check *check)
{
	static const char *const names[] = {"tsshim-peer", "tsshim-secret"};
	bool is_whole = true;

	for (size_t i = 0; i < TS_ARRAY_SIZE(names); i++) {
		char path[PATH_MAX] = "";
		int r = ts_child_find(names[i], path);
		if (r < 0)
			ts_check_find(check, TS_CHECK_FAIL, "%s: %s", path[0] ? path : names[i],
				strerror(-r));
		is_whole = is_whole && r == 0;
	}
	if (!is_whole)
		ts_check_advise(check, TS_CHILD_WITHOUT_OPENSSL);
}

/* Errors: it cannot be read, which is found. */
static int read_directory(struct cluster_check *scene)
{
	struct ts_cluster_fault fault = {.text = ""};
	int r = ts_cluster_read(scene->directory, &scene->cluster, &fault);
	const char *text = fault.text && fault.text[0] ? fault.text : strerror(-r);

	if (r == 0)
		return 0;
	if (fault.line > 0)
		ts_check_find(
			scene->check, TS_CHECK_FAIL, "%s:%u: %s", fault.file, fault.line, text);
	else
		ts_check_find(scene->check, TS_CHECK_FAIL, "%s: %s", fault.file, text);
	if (fault.line > 0)
		ts_check_advise(scene->check, "mend that line, on all nodes");
	else if (r == -EPERM)
		ts_check_advise(scene->check, "make it yours alone: chown, chmod 700 (the "
					      "directory) or 600 (a file)");
	else
		ts_check_advise(scene->check, "tsrun cluster up --dir %s --nodes FILE",
			scene->directory);
	return r;
}

/* ---- this node's server ------------------------------------------------------------------ */

/* The text behind @start at the beginning of a line, which ends there; NULL: there is none. */
static char *find_line(char *text, const char *start)
{
	size_t length = strlen(start);

	for (char *line = text; *line;) {
		char *end = line + strcspn(line, "\n");
		if (strncmp(line, start, length) == 0) {
			*end = '\0';
			return line + length;
		}
		line = end + (*end == '\n');
	}
	return NULL;
}

/* Find what a message of tsshim-secret says, with its hint. */
static void find_message(struct cluster_check *scene, int status)
{
	char *hint = find_line(scene->text, "hint: ");
	char *message = find_line(scene->text, "tsrun: ");

	if (status < 0)
		ts_check_find(
			scene->check, TS_CHECK_WARN, "tsshim-secret: %s", strerror(-status));
	else
		ts_check_find(scene->check, TS_CHECK_WARN, "%s",
			message ? message : "tsshim-secret has ended badly");
	if (hint)
		ts_check_advise(scene->check, "%s", hint);
	else
		ts_check_advise(
			scene->check, "tsrun cluster status --dir %s", scene->directory);
}

/* The number of the server in the list that is to be here, or -1, which is found. */
static int find_listed(struct cluster_check *scene)
{
	char list[PATH_MAX];
	const char *words[] = {NULL, "find", list, NULL};
	int r = ts_cluster_path(scene->directory, "nodes", list);

	if (r == 0)
		r = ts_child_ask_secret(words, WITHIN_NS, scene->text, scene->bytes);
	if (r != 0) {
		find_message(scene, r);
		return -1;
	}
	unsigned long number = strtoul(scene->text, NULL, 10);
	return number < scene->cluster->nodes.count ? (int)number : -1;
}

/* The state of server @number as `tsshim-secret look` has it. */
static void read_states(const char *text, uint32_t number, char ret_state[16], uint32_t *ret_up)
{
	uint32_t up = 0;

	ret_state[0] = '\0';
	for (uint32_t i = 0; *text; i++) {
		char state[16] = "";
		(void)sscanf(text, "%15s", state);
		up += strcmp(state, "up") == 0;
		if (i == number)
			memcpy(ret_state, state, sizeof(state));
		text += strcspn(text, "\n");
		text += *text == '\n';
	}
	*ret_up = up;
}

static void check_server(struct cluster_check *scene, uint32_t number)
{
	const char *words[] = {NULL, "look", scene->directory, NULL};
	char state[16];
	uint32_t up;
	int r = ts_child_ask_secret(words, WITHIN_NS, scene->text, scene->bytes);

	if (r != 0) {
		find_message(scene, r);
		return;
	}
	read_states(scene->text, number, state, &up);
	ts_cluster_name_server(&scene->cluster->nodes.servers[number], scene->name);
	if (strcmp(state, "up") == 0) {
		ts_check_find(scene->check, TS_CHECK_OK,
			"%s: %s, this node's, and %u others of %u are up", scene->directory,
			scene->name, up - 1, scene->cluster->nodes.count - 1);
		return;
	}
	ts_check_find(scene->check, TS_CHECK_WARN, "%s, this node's: %s", scene->name,
		ts_child_explain_look(state));
	ts_check_advise(scene->check, "tsrun cluster up --dir %s", scene->directory);
}

static void check_node(struct cluster_check *scene)
{
	scene->bytes = (size_t)scene->cluster->nodes.count * TS_CHILD_LOOK_BYTES +
		       (size_t)2 * PATH_MAX;
	scene->text = calloc(1, scene->bytes);
	if (!scene->text) {
		ts_check_find(scene->check, TS_CHECK_ABSENT, "%s", strerror(ENOMEM));
		return;
	}
	struct ts_server_record started;
	int number = ts_server_find_running(scene->directory, &started)
			     ? ts_server_index(scene->cluster, &started)
			     : -1;
	if (number < 0)
		number = find_listed(scene);
	if (number >= 0)
		check_server(scene, (uint32_t)number);
	free(scene->text);
}

void ts_check_cluster(const struct ts_check_scene *scene, struct ts_check *check)
{
	struct cluster_check own = {.check = check, .directory = scene->config.cluster};

	if (!own.directory) {
		ts_check_find(check, TS_CHECK_ABSENT,
			"TSSHIM_CLUSTER is off: nothing is asked of other nodes");
		return;
	}
	check_programs(check);
	bool has_programs = check->state != TS_CHECK_FAIL;
	if (scene->config.stage == TS_STAGE_OFF) {
		ts_check_find(check, TS_CHECK_WARN,
			"TSSHIM_STAGE is off: only files that are copied are asked for");
		ts_check_advise(check, "--stage auto");
	}
	if (read_directory(&own) == 0 && has_programs)
		check_node(&own);
	ts_cluster_destroy(own.cluster);
}
