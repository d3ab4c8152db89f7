/* SPDX-License-Identifier: MIT */
/* tsrun cluster: the directory, and the server of this node; its three commands. */
#include "leader/peer/cluster.h"
#include "shim/identity.h"
#include "shim/sys.h"
#include "shim/tsrun/child.h"
#include "shim/tsrun/commands.h"
#include "shim/tsrun/json.h"
#include "shim/tsrun/library.h"
#include "shim/tsrun/message.h"
#include "shim/tsrun/server.h"
#include "shim/tsrun/units.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* What is to be done, as the command line and the environment say it. */
struct order {
	const char *directory;
	const char *nodes;     /* a file, "auto", or NULL: as the directory has them */
	const char *self;      /* HOST or HOST:PORT, or NULL */
	uint64_t memory_bytes; /* 0: not said */
	const char *nvme;      /* PATH:SIZE, or NULL */
	bool plain;            /* --no-tls */
	bool json;
};

/* What a command does with the files of this node's server, which it alone changes meanwhile.
 */
typedef int work(const struct order *order, const struct ts_server_files *files);

static int fail(const char *what, int r)
{
	ts_message_say("%s: %s", what, strerror(-r));
	return TS_EXIT_FAILED;
}

static int report(int r, const struct ts_cluster_fault *fault)
{
	const char *text = fault->text[0] ? fault->text : strerror(-r);

	if (fault->line)
		ts_message_say("%s:%u: %s", fault->file, fault->line, text);
	else
		ts_message_say("%s: %s", fault->file, text);
	return TS_EXIT_FAILED;
}

static int run_locked(const struct order *order, const struct ts_server_files *files, work *run)
{
	int lock = ts_server_lock(files);

	if (lock < 0)
		return fail(files->lock, lock);
	int status = run(order, files);
	ts_sys_close(lock);
	return status;
}

/* ---- up ---------------------------------------------------------------------------------- */

#define MIB        (UINT64_C(1) << 20)
#define MEMORY_MIN (64 * MIB)
#define STORE_MIN  (512 * MIB) /* its pages are of 64 MiB, and some have to be free */

/* Ports of Slurm's jobs: below those that the kernel gives away. */
#define PORT_FIRST 12000u
#define PORT_COUNT 20000u

#define HOSTS_MAX ((size_t)TS_CLUSTER_SERVERS * (TS_CLUSTER_HOST + 1))

/* ---- the list of nodes ------------------------------------------------------------------- */

/* One name on each line, as lines of a list with @port, into the file @path. */
static int write_list(const char *path, char *hosts, unsigned port)
{
	char *rest = NULL;

	(void)ts_sys_unlink(path);
	int fd = ts_sys_open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	FILE *out = fd < 0 ? NULL : fdopen(fd, "w");

	if (!out)
		return fd < 0 ? fd : -ENOMEM;
	for (char *host = strtok_r(hosts, "\n", &rest); host;
		host = strtok_r(NULL, "\n", &rest))
		(void)fprintf(out, "%s:%u\n", host, port);
	bool failed = ferror(out) != 0;
	return fclose(out) == 0 && !failed ? 0 : -EIO;
}

/* The nodes of this job of Slurm's, in the order that it has for all of them. */
static int ask_slurm(const char *path)
{
	const char *nodes = getenv("SLURM_JOB_NODELIST"), *job = getenv("SLURM_JOB_ID");
	char program[PATH_MAX], *end = NULL;
	const char *const words[] = {program, "show", "hostnames", nodes, NULL};
	unsigned long number = job ? strtoul(job, &end, 10) : 0;

	if (!nodes || !job || *end != '\0' || number == 0) {
		ts_message_say("--nodes auto is for jobs of Slurm: SLURM_JOB_NODELIST or "
			       "SLURM_JOB_ID is not set");
		return TS_EXIT_FAILED;
	}
	if (ts_library_which("scontrol", program) < 0) {
		ts_message_say("scontrol of Slurm was not found");
		return TS_EXIT_FAILED;
	}
	char *hosts = malloc(HOSTS_MAX);
	int r = hosts ? ts_child_run(&(struct ts_child){.words = words, .env = environ},
				UINT64_C(10000000000), hosts, HOSTS_MAX)
		      : -ENOMEM;
	if (r == 0)
		r = write_list(path, hosts, PORT_FIRST + (unsigned)(number % PORT_COUNT));
	else if (r > 0)
		r = -EPROTO;
	free(hosts);
	return r < 0 ? fail("scontrol show hostnames", r) : 0;
}

/* Make what is missing where a list was named. */
static int make(const struct order *order, const struct ts_server_files *files)
{
	const char *list = order->nodes;
	char text[16];

	if (!list && order->plain) {
		ts_message_say("--no-tls is for a cluster that is being made");
		ts_message_hint(
			"write tls = off into %s/cluster.conf, on all nodes", order->directory);
		return TS_EXIT_FAILED;
	}
	if (!list && access(order->directory, F_OK) < 0) {
		ts_message_say("%s: %s", order->directory, strerror(errno));
		ts_message_hint(
			"name the nodes and it is made: --nodes FILE, or --nodes auto in "
			"a job of Slurm");
		return TS_EXIT_FAILED;
	}
	if (!list)
		return 0;
	if (strcmp(list, "auto") == 0) {
		int status = ask_slurm(files->list);
		if (status != 0)
			return status;
		list = files->list;
	}
	const char *words[] = {
		NULL, "make", order->directory, list, order->plain ? "plain" : "tls", NULL};
	return ts_child_run_secret(words, text, sizeof(text));
}

/* ---- what it gets ------------------------------------------------------------------------ */

static int choose_memory(
	const struct order *order, const struct ts_cluster *cluster, uint64_t *ret_bytes)
{
	struct ts_config defaults;
	uint64_t bytes = order->memory_bytes ? order->memory_bytes : cluster->memory_bytes;
	char text[TS_UNITS_BYTES];

	ts_config_init(&defaults);
	if (bytes == 0)
		bytes = ts_memcached_memory(defaults.stage_bytes);
	if (bytes < MEMORY_MIN) {
		ts_message_say(
			"%s of memory is too little for a server", ts_units_size(bytes, text));
		ts_message_hint("say --memory 64M or more");
		return -EINVAL;
	}
	*ret_bytes = bytes;
	return 0;
}

/* PATH:SIZE of the command line, or what cluster.conf has. */
static int choose_store(const struct order *order, const struct ts_cluster *cluster,
	char ret_path[PATH_MAX], uint64_t *ret_bytes)
{
	char text[TS_UNITS_BYTES];

	memcpy(ret_path, cluster->nvme, sizeof(cluster->nvme));
	*ret_bytes = cluster->nvme_bytes;
	if (order->nvme && ts_cluster_parse_nvme(order->nvme, ret_path, ret_bytes) < 0) {
		ts_message_say("option '--nvme' has a bad value '%s'", order->nvme);
		ts_message_hint("it must be the absolute path of a file and a size, as in "
				"/local/cache:500G");
		return -EINVAL;
	}
	if (*ret_bytes != 0 && *ret_bytes < STORE_MIN) {
		ts_message_say("%s of storage is too little for a server",
			ts_units_size(*ret_bytes, text));
		ts_message_hint("say --nvme %s:512M or more", ret_path);
		return -EINVAL;
	}
	return 0;
}

/* A file that nobody else has: its name has the user's number and the port. */
static int make_store(char path[PATH_MAX], uint16_t port)
{
	char own[PATH_MAX];

	if (snprintf(own, sizeof(own), "%s.%u.%u", path, geteuid(), port) >= (int)sizeof(own))
		return -ENAMETOOLONG;
	/* What a server that was killed has left.  Of another user it stays, and is in the way.
	 */
	(void)ts_sys_unlink(own);
	int fd = ts_sys_open(own, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return fd;
	ts_sys_close(fd);
	memcpy(path, own, sizeof(own));
	return 0;
}

static int check_program(const struct ts_memcached *memcached, const struct ts_cluster *cluster,
	bool wants_store)
{
	const char *lacks = cluster->tls && !memcached->has_tls ? "TLS (-Z)"
			    : !memcached->has_tokens            ? "authentication (-Y)"
			    : wants_store && !memcached->has_store
				    ? "extstore (ext_path), which --nvme needs"
				    : NULL;

	/* Its options are separated by commas, and know no other way. */
	if (cluster->tls && (strchr(cluster->certificate, ',') || strchr(cluster->key, ','))) {
		ts_message_say("the directory of a cluster must have no comma in its name: %s",
			cluster->certificate);
		return -EINVAL;
	}
	if (!lacks)
		return 0;
	ts_message_say("%s was built without %s", memcached->program, lacks);
	return -EINVAL;
}

/* ---- the server -------------------------------------------------------------------------- */

/* Which server of the list is to be here, and on which address. */
static int find_self(const struct order *order, const struct ts_cluster *cluster,
	const char *self, struct ts_server_record *record, char ret_address[64])
{
	char list[PATH_MAX], text[128];
	unsigned number;

	if (ts_cluster_path(order->directory, "nodes", list) < 0)
		return TS_EXIT_FAILED;
	const char *words[] = {NULL, "find", list, self, NULL};
	int status = ts_child_run_secret(words, text, sizeof(text));
	if (status != 0)
		return status;
	if (sscanf(text, "%u %63s", &number, ret_address) != 2 ||
		number >= cluster->nodes.count)
		return fail("tsshim-secret", -EPROTO);
	const struct ts_cluster_server *server = &cluster->nodes.servers[number];
	(void)snprintf(record->host, sizeof(record->host), "%s", server->host);
	record->port = server->port;
	return 0;
}

static int write_tokens(
	const struct order *order, const struct ts_server_files *files, bool *ret_new)
{
	char text[16];
	const char *words[] = {NULL, "tokens", order->directory, files->tokens, NULL};
	int status = ts_child_run_secret(words, text, sizeof(text));

	*ret_new = strcmp(text, "new\n") == 0;
	return status;
}

/* The last words of a server that did not start. */
static void report_log(const struct ts_server_files *files)
{
	char text[4096];

	if (ts_sys_read_file(files->log, text, sizeof(text)) <= 0) {
		ts_message_say("memcached has ended without a word");
		return;
	}
	for (size_t length = strlen(text); length > 0 && text[length - 1] == '\n';)
		text[--length] = '\0';
	char *line = strrchr(text, '\n');
	line = line ? line + 1 : text;
	ts_units_make_printable(line);
	ts_message_say("memcached did not start: %s", line);
}

static int start(const struct ts_memcached *memcached, const struct ts_memcached_plan *plan,
	struct ts_server_record *record)
{
	char size[TS_UNITS_BYTES];
	int pid = ts_memcached_start(memcached, plan);

	if (pid < 0)
		return fail(memcached->program, pid);
	/* Before it listens: who kills us now leaves a server that `down` finds. */
	record->process = ts_process_id(pid, false);
	int r = ts_server_write_record(plan->files, record);
	if (r == 0)
		r = ts_memcached_wait(plan->files, pid);
	if (r == 0) {
		printf("up: %s:%u, process %d, %s of memory%s\n", record->host, record->port,
			pid, ts_units_size(plan->memory_bytes, size),
			plan->cluster->tls ? "" : ", without TLS");
		return 0;
	}
	if (r == -ECHILD) {
		report_log(plan->files);
	} else {
		(void)fail(
			r == -ETIMEDOUT ? "memcached does not listen" : plan->files->record, r);
		(void)kill(pid, SIGKILL);
		(void)waitpid(pid, NULL, 0);
	}
	ts_server_remove_files(plan->files, record);
	return TS_EXIT_FAILED;
}

static int prepare_and_start(const struct order *order, const struct ts_cluster *cluster,
	const struct ts_server_files *files, struct ts_server_record *record,
	const char *address)
{
	struct ts_memcached memcached;
	struct ts_memcached_plan plan = {
		.cluster = cluster, .files = files, .address = address, .port = record->port};
	bool is_new;

	int r = ts_memcached_find(&memcached);
	if (r < 0) {
		(void)fail("memcached", r);
		ts_message_hint(
			"install it, as `apt install memcached` does; its service is not "
			"needed");
		return TS_EXIT_FAILED;
	}
	if (choose_memory(order, cluster, &plan.memory_bytes) < 0 ||
		choose_store(order, cluster, record->nvme, &plan.nvme_bytes) < 0 ||
		check_program(&memcached, cluster, plan.nvme_bytes != 0) < 0 ||
		write_tokens(order, files, &is_new) != 0)
		return TS_EXIT_FAILED;
	if (plan.nvme_bytes != 0) {
		r = make_store(record->nvme, record->port);
		if (r < 0)
			return fail(record->nvme, r);
		plan.nvme = record->nvme;
	}
	return start(&memcached, &plan, record);
}

/* One that is up stays, and gets tokens that have changed. */
static int renew(const struct order *order, const struct ts_server_files *files,
	const struct ts_server_record *record)
{
	bool is_new;

	if (write_tokens(order, files, &is_new) != 0)
		return TS_EXIT_FAILED;
	if (is_new)
		ts_server_renew(files, record);
	printf("up already: %s:%u, process %d%s\n", record->host, record->port,
		(int)TS_PROCESS_PID(record->process), is_new ? ", with new tokens" : "");
	return 0;
}

/* The server in @there is as the directory is now. */
static bool is_current(
	const struct ts_server_record *there, const struct ts_server_record *wanted)
{
	return strcmp(there->host, wanted->host) == 0 && there->port == wanted->port &&
	       there->certificate == wanted->certificate;
}

static int run_server(const struct order *order, const struct ts_cluster *cluster,
	const struct ts_server_files *files)
{
	struct ts_server_record there, wanted = {0};
	char address[64], name[TS_CLUSTER_NAME];
	int r = ts_server_read_record(files, &there);
	bool alive = r == 0 && ts_server_is_alive(files, &there);
	const char *self = order->self;

	/* What was said when it began needs not be said again. */
	int listed = self || !alive ? -1 : ts_server_index(cluster, &there);
	if (listed >= 0) {
		ts_cluster_name_server(&cluster->nodes.servers[listed], name);
		self = name;
	}
	int status = find_self(order, cluster, self, &wanted, address);
	if (status != 0)
		return status;
	if (cluster->tls)
		wanted.certificate = ts_server_number_file(cluster->certificate);
	if (alive) {
		if (is_current(&there, &wanted))
			return renew(order, files, &there);
		/* Others have another list and another certificate, and no longer trust it. */
		printf("the list of nodes has changed: the server begins anew, empty\n");
		int ended = ts_server_end(files, &there);
		if (ended < 0)
			return fail("the server cannot be ended", ended);
	}
	/* Of a server that has gone; whoever has its number now is left alone. */
	ts_server_clear(files, r == 0 ? &there : NULL);
	return prepare_and_start(order, cluster, files, &wanted, address);
}

static int go_up(const struct order *order, const struct ts_server_files *files)
{
	struct ts_cluster_fault fault;
	struct ts_cluster *cluster;
	int status = make(order, files);

	if (status != 0)
		return status;
	int r = ts_cluster_read(order->directory, &cluster, &fault);
	if (r < 0)
		return report(r, &fault);
	status = run_server(order, cluster, files);
	ts_cluster_destroy(cluster);
	return status;
}

static int run_up(const struct order *order)
{
	struct ts_server_files *files = calloc(1, sizeof(*files));
	int r = files ? ts_server_find_files(order->directory, files) : -ENOMEM;

	if (r < 0) {
		free(files);
		return fail(order->directory, r);
	}
	/* memcached has another working directory. */
	struct order there = *order;
	there.directory = files->directory;
	int status = run_locked(&there, files, go_up);
	free(files);
	return status;
}

/* ---- down: ends this node's server; the directory stays ---------------------------------- */

static int report_none(const struct order *order)
{
	printf("not up: no server of %s runs here\n", order->directory);
	return 0;
}

static int go_down(const struct order *order, const struct ts_server_files *files)
{
	struct ts_server_record record;
	int r = ts_server_read_record(files, &record);

	if (r == -EINVAL)
		return fail(files->record, r);
	if (r < 0 || !ts_server_is_alive(files, &record)) {
		ts_server_remove_files(files, r == 0 ? &record : NULL);
		return report_none(order);
	}
	r = ts_server_end(files, &record);
	if (r < 0)
		return fail("the server cannot be ended", r);
	ts_server_remove_files(files, &record);
	printf("down: %s:%u, process %d\n", record.host, record.port,
		(int)TS_PROCESS_PID(record.process));
	return 0;
}

static int run_down(const struct order *order)
{
	struct ts_server_files *files = calloc(1, sizeof(*files));
	int r = files ? ts_server_find_files(order->directory, files) : -ENOMEM;

	if (r < 0) {
		free(files);
		/* Not even what is above the directory is there, so no server can be. */
		return r == -ENOENT ? report_none(order) : fail(order->directory, r);
	}
	int status = run_locked(order, files, go_down);
	free(files);
	return status;
}

/* ---- status: what each server of the list says of itself --------------------------------- */

/* What leader/peer/look.h says of a server. */
struct row {
	char state[16];
	bool up;
	uint64_t used, limit, items, hits, misses;
};

struct scene {
	const struct order *order;
	struct ts_cluster *cluster;
	struct row *rows;
	int process; /* of the server here; 0: there is none */
	int here;    /* its number in the list, or -1 */
};

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
	size_t bytes = (size_t)scene->cluster->nodes.count * TS_CHILD_LOOK_BYTES + 1;
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
	ts_json_bool(json, "here", scene->here == (int)i);
	ts_json_string(json, "state", row->state);
	for (size_t n = 0; n < TS_ARRAY_SIZE(numbers); n++)
		ts_json_number_or_null(json, numbers[n].name, row->up, numbers[n].value);
	ts_json_close(json, '}');
}

static void write_json(const struct scene *scene)
{
	struct ts_json json = {.out = stdout};

	ts_json_open(&json, NULL, '{');
	ts_json_string(&json, "directory", scene->order->directory);
	ts_json_bool(&json, "tls", scene->cluster->tls);
	ts_json_number_or_null(&json, "process", scene->process > 0, (uint64_t)scene->process);
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
	printf("%c %-*s ", scene->here == (int)i ? '*' : ' ', width, name);
	if (!row->up) {
		printf("%s\n", ts_child_explain_look(row->state));
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

static int run_status(const struct order *order)
{
	struct scene *scene = calloc(1, sizeof(*scene));
	struct ts_cluster_fault fault;
	int status = TS_EXIT_FAILED;

	if (!scene)
		return status;
	scene->order = order;
	int r = ts_cluster_read(order->directory, &scene->cluster, &fault);
	status = r < 0 ? report(r, &fault) : ask(scene);
	if (status == 0) {
		struct ts_server_record here;
		scene->here = -1;
		if (ts_server_find_running(order->directory, &here)) {
			scene->process = TS_PROCESS_PID(here.process);
			scene->here = ts_server_index(scene->cluster, &here);
		}
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

/* ---- what the command line says ---------------------------------------------------------- */

static const struct {
	const char *name;
	int (*run)(const struct order *order);
	bool makes;  /* takes --nodes and what else is about a server that begins */
	bool prints; /* takes --json */
} commands[] = {
	{"up", run_up, true, false},
	{"down", run_down, false, false},
	{"status", run_status, false, true},
};

/* The number of the word in the table, or -1 after a message. */
static int find_command(char *const *words)
{
	const char *names[TS_ARRAY_SIZE(commands) + 1] = {NULL};

	if (!words) {
		ts_message_say("tsrun cluster needs a word: up, down or status");
		return -1;
	}
	if (words[1]) {
		ts_message_say("tsrun cluster %s takes no argument '%s'", words[0], words[1]);
		return -1;
	}
	for (size_t i = 0; i < TS_ARRAY_SIZE(commands); i++) {
		names[i] = commands[i].name;
		if (strcmp(words[0], names[i]) == 0)
			return (int)i;
	}
	const char *near = ts_config_nearest(words[0], names);
	ts_message_say("tsrun cluster has no '%s'", words[0]);
	if (near)
		ts_message_hint("did you mean '%s'?", near);
	else
		ts_message_hint("there are up, down and status");
	return -1;
}

/* Options that this command does not take. */
static int check_options(const struct ts_arguments *arguments, int command)
{
	static const struct {
		enum ts_flag flag;
		const char *name;
	} makers[] = {{TS_FLAG_NODES, "--nodes"}, {TS_FLAG_SELF, "--self"},
		{TS_FLAG_MEMORY, "--memory"}, {TS_FLAG_NVME, "--nvme"},
		{TS_FLAG_NO_TLS, "--no-tls"}};
	const char *bad = NULL;

	if (arguments->flag[TS_FLAG_JSON] && !commands[command].prints)
		bad = "--json";
	for (size_t i = 0; i < TS_ARRAY_SIZE(makers) && !commands[command].makes; i++)
		if (arguments->flag[makers[i].flag])
			bad = makers[i].name;
	if (!bad)
		return 0;
	ts_message_say(
		"'%s' does not belong to `tsrun cluster %s`", bad, commands[command].name);
	return -EINVAL;
}

static int read_order(const struct ts_arguments *arguments, struct order *ret_order)
{
	struct order order = {
		.directory = arguments->value[TS_FLAG_DIR],
		.nodes = arguments->value[TS_FLAG_NODES],
		.self = arguments->value[TS_FLAG_SELF],
		.nvme = arguments->value[TS_FLAG_NVME],
		.plain = arguments->flag[TS_FLAG_NO_TLS],
		.json = arguments->flag[TS_FLAG_JSON],
	};
	const char *memory = arguments->value[TS_FLAG_MEMORY];

	if (!order.directory)
		order.directory = getenv("TSSHIM_CLUSTER");
	if (!order.directory || order.directory[0] == '\0') {
		ts_message_say("tsrun cluster needs the directory of the cluster");
		ts_message_hint("write --dir DIR, or set TSSHIM_CLUSTER; it is the same on all "
				"nodes");
		return -EINVAL;
	}
	if (memory && (ts_config_parse_size(memory, &order.memory_bytes) < 0 ||
			      order.memory_bytes == 0)) {
		ts_message_say("option '--memory' has a bad value '%s'", memory);
		ts_message_hint("it must be a size such as 64G");
		return -EINVAL;
	}
	*ret_order = order;
	return 0;
}

int ts_cluster_command(const struct ts_arguments *arguments)
{
	struct order order;
	int command = find_command(arguments->files);

	if (command < 0 || check_options(arguments, command) < 0 ||
		read_order(arguments, &order) < 0)
		return TS_EXIT_FAILED;
	return commands[command].run(&order);
}
