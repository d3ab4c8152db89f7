/* SPDX-License-Identifier: MIT */
/* tsrun cluster up: the directory, this node's place in it, and its server. */
#include "leader/peer/cluster.h"
#include "shim/config.h"
#include "shim/identity.h"
#include "shim/sys.h"
#include "shim/tsrun/child.h"
#include "shim/tsrun/cluster.h"
#include "shim/tsrun/library.h"
#include "shim/tsrun/memcached.h"
#include "shim/tsrun/message.h"
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

#define MIB        (UINT64_C(1) << 20)
#define MEMORY_MIN (64 * MIB)
#define STORE_MIN  (512 * MIB) /* its pages are of 64 MiB, and some have to be free */

/* Ports of Slurm's jobs: below those that the kernel gives away. */
#define PORT_FIRST 12000u
#define PORT_COUNT 20000u

#define HOSTS_MAX ((size_t)TS_CLUSTER_SERVERS * (TS_CLUSTER_HOST + 1))

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

/* ---- the list of nodes --------------------------------------------------------------------
 */

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
	int r = hosts ? ts_child_run(program, words, environ, UINT64_C(10000000000), hosts,
				HOSTS_MAX)
		      : -ENOMEM;
	if (r == 0)
		r = write_list(path, hosts, PORT_FIRST + (unsigned)(number % PORT_COUNT));
	else if (r > 0)
		r = -EPROTO;
	free(hosts);
	return r < 0 ? fail("scontrol show hostnames", r) : 0;
}

/* Make what is missing where a list was named. */
static int make(const struct ts_cluster_order *order, const struct ts_server_files *files)
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

/* ---- what it gets -------------------------------------------------------------------------
 */

static int choose_memory(const struct ts_cluster_order *order, const struct ts_cluster *cluster,
	uint64_t *ret_bytes)
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
static int choose_store(const struct ts_cluster_order *order, const struct ts_cluster *cluster,
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

/* ---- the server ---------------------------------------------------------------------------
 */

/* Which server of the list is to be here, and on which address. */
static int find_self(const struct ts_cluster_order *order, const struct ts_cluster *cluster,
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

static int write_tokens(const struct ts_cluster_order *order,
	const struct ts_server_files *files, bool *ret_new)
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

static int prepare_and_start(const struct ts_cluster_order *order,
	const struct ts_cluster *cluster, const struct ts_server_files *files,
	struct ts_server_record *record, const char *address)
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
static int renew(const struct ts_cluster_order *order, const struct ts_server_files *files,
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

/* HOST:PORT of the server in @there, if the list still has it. */
static bool name_listed(const struct ts_cluster *cluster, const struct ts_server_record *there,
	char ret_name[TS_CLUSTER_NAME])
{
	for (uint32_t i = 0; i < cluster->nodes.count; i++) {
		const struct ts_cluster_server *server = &cluster->nodes.servers[i];
		if (server->port != there->port || strcmp(server->host, there->host) != 0)
			continue;
		ts_cluster_name_server(server, ret_name);
		return true;
	}
	return false;
}

static int run_server(const struct ts_cluster_order *order, const struct ts_cluster *cluster,
	const struct ts_server_files *files)
{
	struct ts_server_record there, wanted = {0};
	char address[64], name[TS_CLUSTER_NAME];
	int r = ts_server_read_record(files, &there);
	bool alive = r == 0 && ts_server_is_alive(files, &there);
	const char *self = order->self;

	/* What was said when it began needs not be said again. */
	if (!self && alive && name_listed(cluster, &there, name))
		self = name;
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

static int go_up(const struct ts_cluster_order *order, const struct ts_server_files *files)
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

int ts_cluster_up(const struct ts_cluster_order *order)
{
	struct ts_server_files *files = calloc(1, sizeof(*files));
	int r = files ? ts_server_find_files(order->directory, files) : -ENOMEM;

	if (r < 0) {
		free(files);
		return fail(order->directory, r);
	}
	/* memcached has another working directory. */
	struct ts_cluster_order there = *order;
	there.directory = files->directory;
	int lock = ts_server_lock(files);
	int status = lock < 0 ? fail(files->lock, lock) : go_up(&there, files);
	if (lock >= 0)
		ts_sys_close(lock);
	free(files);
	return status;
}
