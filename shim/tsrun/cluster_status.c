/* SPDX-License-Identifier: MIT */
/* tsrun cluster status: what each server of the list says of itself. */
#include "leader/peer/cluster.h"
#include "leader/peer/look.h"
#include "shim/identity.h"
#include "shim/tsrun/child.h"
#include "shim/tsrun/cluster.h"
#include "shim/tsrun/json.h"
#include "shim/tsrun/message.h"
#include "shim/tsrun/server.h"
#include "shim/tsrun/units.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_MAX_BYTES 160u

/* What leader/peer/look.h says of a server. */
struct row {
	char state[16];
	bool up;
	uint64_t used, limit, items, hits, misses;
};

struct scene {
	const struct ts_cluster_order *order;
	struct ts_cluster *cluster;
	struct row *rows;
	struct ts_server_record here;
	bool has_server; /* here */
};

const char *ts_cluster_explain(const char *state)
{
	static const struct {
		const char *state, *text;
	} texts[] = {
#define ONE(name, word, meaning) {word, meaning},
		TS_LOOKS(ONE)
#undef ONE
	};

	for (size_t i = 0; i < TS_ARRAY_SIZE(texts); i++)
		if (strcmp(texts[i].state, state) == 0)
			return texts[i].text;
	return "";
}

/* ---- asking ------------------------------------------------------------------------------ */

static int parse(const char *text, struct scene *scene)
{
	for (uint32_t i = 0; i < scene->cluster->nodes.count; i++) {
		struct row *row = &scene->rows[i];
		if (sscanf(text,
			    "%15s %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64,
			    row->state, &row->used, &row->limit, &row->items, &row->hits,
			    &row->misses) != 6)
			return -EPROTO;
		row->up = strcmp(row->state, "up") == 0;
		text += strcspn(text, "\n");
		text += *text == '\n';
	}
	return 0;
}

static int ask(struct scene *scene)
{
	size_t bytes = (size_t)scene->cluster->nodes.count * LINE_MAX_BYTES + 1;
	char *text = malloc(bytes);
	const char *words[] = {NULL, "look", scene->order->directory, NULL};

	scene->rows = calloc(scene->cluster->nodes.count, sizeof(*scene->rows));
	int status =
		text && scene->rows ? ts_child_run_secret(words, text, bytes) : TS_EXIT_FAILED;
	if (status == 0 && parse(text, scene) < 0) {
		ts_message_say("tsshim-secret: %s", strerror(EPROTO));
		status = TS_EXIT_FAILED;
	}
	free(text);
	return status;
}

static void look_here(struct scene *scene)
{
	struct ts_server_files *files = calloc(1, sizeof(*files));

	scene->has_server = files &&
			    ts_server_find_files(scene->order->directory, files) == 0 &&
			    ts_server_read_record(files, &scene->here) == 0 &&
			    ts_server_is_alive(files, &scene->here);
	free(files);
}

static bool is_here(const struct scene *scene, const struct ts_cluster_server *server)
{
	return scene->has_server && scene->here.port == server->port &&
	       strcmp(scene->here.host, server->host) == 0;
}

/* ---- showing ----------------------------------------------------------------------------- */

static void write_node(struct ts_json *json, const struct scene *scene, uint32_t i)
{
	const struct ts_cluster_server *server = &scene->cluster->nodes.servers[i];
	const struct row *row = &scene->rows[i];
	const struct {
		const char *name;
		uint64_t value;
	} numbers[] = {{"memory_used", row->used}, {"memory_limit", row->limit},
		{"items", row->items}, {"hits", row->hits}, {"misses", row->misses}};

	ts_json_open(json, NULL, '{');
	ts_json_string(json, "host", server->host);
	ts_json_number(json, "port", server->port);
	ts_json_number(json, "weight", server->weight);
	ts_json_bool(json, "here", is_here(scene, server));
	ts_json_string(json, "state", row->state);
	for (size_t n = 0; n < TS_ARRAY_SIZE(numbers); n++) {
		if (row->up)
			ts_json_number(json, numbers[n].name, numbers[n].value);
		else
			ts_json_null(json, numbers[n].name);
	}
	ts_json_close(json, '}');
}

static void write_json(const struct scene *scene)
{
	struct ts_json json = {.out = stdout};

	ts_json_open(&json, NULL, '{');
	ts_json_string(&json, "directory", scene->order->directory);
	ts_json_bool(&json, "tls", scene->cluster->tls);
	if (scene->has_server)
		ts_json_number(&json, "process", (uint64_t)TS_PROCESS_PID(scene->here.process));
	else
		ts_json_null(&json, "process");
	ts_json_open(&json, "nodes", '[');
	for (uint32_t i = 0; i < scene->cluster->nodes.count; i++)
		write_node(&json, scene, i);
	ts_json_close(&json, ']');
	ts_json_close(&json, '}');
}

static void print_row(const struct scene *scene, uint32_t i, int width)
{
	const struct row *row = &scene->rows[i];
	char name[TS_CLUSTER_NAME], used[TS_UNITS_BYTES], limit[TS_UNITS_BYTES],
		items[TS_UNITS_BYTES];
	uint64_t asked = row->hits + row->misses;

	ts_cluster_name_server(&scene->cluster->nodes.servers[i], name);
	printf("%c %-*s ", is_here(scene, &scene->cluster->nodes.servers[i]) ? '*' : ' ', width,
		name);
	if (!row->up) {
		printf("%s\n", ts_cluster_explain(row->state));
		return;
	}
	printf("up, %s of %s, %s items, ", ts_units_size(row->used, used),
		ts_units_size(row->limit, limit), ts_units_grouped(row->items, items));
	if (asked == 0)
		printf("hits n/a\n");
	else
		printf("hits %" PRIu64 ".%" PRIu64 " %%\n", row->hits * 100 / asked,
			row->hits * 1000 / asked % 10);
}

static void print_text(const struct scene *scene)
{
	uint32_t up = 0;
	int width = 0;
	char name[TS_CLUSTER_NAME];

	for (uint32_t i = 0; i < scene->cluster->nodes.count; i++) {
		ts_cluster_name_server(&scene->cluster->nodes.servers[i], name);
		width = (int)strlen(name) > width ? (int)strlen(name) : width;
		up += scene->rows[i].up;
	}
	printf("%u of %u servers are up%s; * is this node\n", up, scene->cluster->nodes.count,
		scene->cluster->tls ? "" : ", without TLS");
	for (uint32_t i = 0; i < scene->cluster->nodes.count; i++)
		print_row(scene, i, width);
}

static int judge(const struct scene *scene)
{
	for (uint32_t i = 0; i < scene->cluster->nodes.count; i++)
		if (!scene->rows[i].up)
			return 1;
	return 0;
}

int ts_cluster_status(const struct ts_cluster_order *order)
{
	struct scene *scene = calloc(1, sizeof(*scene));
	struct ts_cluster_fault fault;
	int status = TS_EXIT_FAILED;

	if (!scene)
		return status;
	scene->order = order;
	int r = ts_cluster_read(order->directory, &scene->cluster, &fault);
	if (r < 0 && fault.line)
		ts_message_say("%s:%u: %s", fault.file, fault.line, fault.text);
	else if (r < 0)
		ts_message_say("%s: %s", fault.file, fault.text[0] ? fault.text : strerror(-r));
	if (r == 0)
		status = ask(scene);
	if (status == 0) {
		look_here(scene);
		if (order->json)
			write_json(scene);
		else
			print_text(scene);
		status = judge(scene);
	}
	free(scene->rows);
	ts_cluster_destroy(scene->cluster);
	free(scene);
	return status;
}
