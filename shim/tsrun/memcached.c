/* SPDX-License-Identifier: MIT */
/* Starts memcached: shim/tsrun/memcached.h. */
#include "shim/tsrun/memcached.h"
#include "leader/object/limits.h"
#include "shim/sys.h"
#include "shim/tsrun/child.h"
#include "shim/tsrun/library.h"

#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define ASK_NS    UINT64_C(10000000000)
#define LISTEN_NS UINT64_C(15000000000)

#define MIB (UINT64_C(1) << 20)

/* 64 nodes with some hundred helper processes each. */
#define CONNECTIONS_MAX 16384u
/* What it opens besides connections. */
#define FILES_OF_ITS_OWN ((rlim_t)128)
#define THREADS_MAX      4

/* Values of a chunk and more go to the device, lists of words and heads do not. */
#define STORE_ITEM "ext_item_size=16384"

#define WORDS_MAX 40

/* ---- what there is ----------------------------------------------------------------------- */

static int find_program(char ret_path[PATH_MAX])
{
	/* A search path of a user may lack them. */
	static const char *const places[] = {
		"/usr/bin/memcached", "/usr/local/bin/memcached", "/usr/sbin/memcached"};

	if (ts_library_which("memcached", ret_path) == 0)
		return 0;
	for (size_t i = 0; i < TS_ARRAY_SIZE(places); i++)
		if (ts_library_which(places[i], ret_path) == 0)
			return 0;
	return -ENOENT;
}

int ts_memcached_find(struct ts_memcached *ret_memcached)
{
	static char *const none[] = {NULL};
	struct ts_memcached memcached;
	const char *const words[] = {memcached.program, "-h", NULL};
	char *text;
	int r = find_program(memcached.program);

	if (r < 0)
		return r;
	text = malloc(1 << 16);
	if (!text)
		return -ENOMEM;
	r = ts_child_run(memcached.program, words, none, ASK_NS, text, 1 << 16);
	if (r >= 0)
		r = strstr(text, "--listen") ? 0 : -EPROTO;
	memcached.has_tls = strstr(text, "--enable-ssl") && strstr(text, "ssl_ca_cert");
	memcached.has_tokens = strstr(text, "--auth-file");
	memcached.has_store = strstr(text, "ext_path");
	memcached.has_no_flush = strstr(text, "--disable-flush-all");
	memcached.has_no_dump = strstr(text, "--disable-dumping");
	memcached.has_no_watch = strstr(text, "--disable-watch");
	free(text);
	if (r == 0)
		*ret_memcached = memcached;
	return r;
}

/* Of MemAvailable, or all where /proc does not say. */
static uint64_t read_available(void)
{
	char text[4096], *at;

	if (ts_sys_read_file("/proc/meminfo", text, sizeof(text)) < 0)
		return UINT64_MAX;
	at = strstr(text, "MemAvailable:");
	return at ? strtoull(at + strlen("MemAvailable:"), NULL, 10) << 10 : UINT64_MAX;
}

uint64_t ts_memcached_memory(uint64_t most)
{
	int fd = ts_sys_open("/dev/shm", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	uint64_t limit = ts_min_u64(most, read_available() / 100 * TS_LIMITS_TMPFS_PERCENT);

	if (fd < 0)
		return limit;
	limit = ts_min_u64(limit, ts_limits_files(fd, 0, true));
	ts_sys_close(fd);
	return limit;
}

/* Its limit of open files must not be above ours: it would not start. */
static unsigned count_connections(void)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) < 0 ||
		files.rlim_max >= CONNECTIONS_MAX + FILES_OF_ITS_OWN)
		return CONNECTIONS_MAX;
	return files.rlim_max > 2 * FILES_OF_ITS_OWN
		       ? (unsigned)files.rlim_max - FILES_OF_ITS_OWN
		       : (unsigned)FILES_OF_ITS_OWN;
}

static int count_threads(void)
{
	cpu_set_t set;
	int count =
		sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : THREADS_MAX;

	return count < 1 ? 1 : count > THREADS_MAX ? THREADS_MAX : count;
}

/* ---- the command line ---------------------------------------------------------------------
 */

struct command {
	const char *words[WORDS_MAX];
	size_t count;
	char port[8], memory[24], threads[8], connections[8];
	char tls[3 * PATH_MAX + 128], store[PATH_MAX + 64];
};

static void add(struct command *command, const char *word)
{
	if (command->count + 1 < WORDS_MAX)
		command->words[command->count++] = word;
	command->words[command->count] = NULL;
}

static void add_pair(struct command *command, const char *option, const char *value)
{
	add(command, option);
	add(command, value);
}

static void add_store(struct command *command, const struct ts_memcached_plan *plan)
{
	(void)snprintf(command->store, sizeof(command->store), "ext_path=%s:%" PRIu64 "M,%s",
		plan->nvme, plan->nvme_bytes / MIB, STORE_ITEM);
	add_pair(command, "-o", command->store);
}

static void add_tls(struct command *command, const struct ts_cluster *cluster)
{
	(void)snprintf(command->tls, sizeof(command->tls),
		"ssl_chain_cert=%s,ssl_key=%s,ssl_ca_cert=%s,ssl_verify_mode=2",
		cluster->certificate, cluster->key, cluster->certificate);
	add(command, "-Z");
	add_pair(command, "-o", command->tls);
}

/* Paths with a comma were refused before. */
static void compose(struct command *command, const struct ts_memcached *memcached,
	const struct ts_memcached_plan *plan)
{
	(void)snprintf(command->port, sizeof(command->port), "%u", plan->port);
	(void)snprintf(
		command->memory, sizeof(command->memory), "%" PRIu64, plan->memory_bytes / MIB);
	(void)snprintf(command->threads, sizeof(command->threads), "%d", count_threads());
	(void)snprintf(
		command->connections, sizeof(command->connections), "%u", count_connections());
	add(command, memcached->program);
	add_pair(command, "-l", plan->address);
	add_pair(command, "-p", command->port);
	add_pair(command, "-U", "0");
	add_pair(command, "-m", command->memory);
	add_pair(command, "-t", command->threads);
	add_pair(command, "-c", command->connections);
	add_pair(command, "-Y", plan->files->tokens);
	if (plan->nvme)
		add_store(command, plan);
	else
		add(command, "-M"); /* what is there stays: a miss is cheaper than a churn */
	if (plan->cluster->tls)
		add_tls(command, plan->cluster);
	if (memcached->has_no_flush)
		add(command, "-F");
	if (memcached->has_no_dump)
		add(command, "-X");
	if (memcached->has_no_watch)
		add(command, "-W");
	/* Else it refuses to be root. */
	if (geteuid() == 0)
		add_pair(command, "-u", "root");
}

/* ---- the process --------------------------------------------------------------------------
 */

static void forget_signals(void)
{
	sigset_t none;

	for (int number = 1; number < NSIG; number++)
		(void)signal(number, SIG_DFL);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
}

static _Noreturn void become(const struct command *command, const char *ports, int log)
{
	char variable[PATH_MAX + 32];
	const char *const env[] = {"PATH=/usr/bin:/bin", variable, NULL};
	int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);

	(void)snprintf(variable, sizeof(variable), "MEMCACHED_PORT_FILENAME=%s", ports);
	(void)setsid();
	(void)umask(077);
	forget_signals();
	if (nothing >= 0 && chdir("/") == 0 && dup2(nothing, STDIN_FILENO) >= 0 &&
		dup2(log, STDOUT_FILENO) >= 0 && dup2(log, STDERR_FILENO) >= 0)
		(void)execve(
			command->words[0], (char *const *)command->words, (char *const *)env);
	dprintf(log, "cannot be executed: %s\n", strerror(errno));
	_exit(127);
}

int ts_memcached_start(
	const struct ts_memcached *memcached, const struct ts_memcached_plan *plan)
{
	struct command *command = calloc(1, sizeof(*command));

	if (!command)
		return -ENOMEM;
	compose(command, memcached, plan);
	(void)ts_sys_unlink(plan->files->ports);
	(void)ts_sys_unlink(plan->files->log);
	int log = ts_sys_open(plan->files->log,
		O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	int r = log < 0 ? log : fork();
	if (r == 0)
		become(command, plan->files->ports, log);
	if (r < 0 && log >= 0)
		r = -errno;
	if (log >= 0)
		ts_sys_close(log);
	free(command);
	return r;
}

int ts_memcached_wait(const struct ts_server_files *files, int pid)
{
	uint64_t until_ns = ts_now_ns() + LISTEN_NS;
	const struct timespec step = {.tv_nsec = 5000000};
	int status;

	for (;;) {
		if (waitpid(pid, &status, WNOHANG) != 0)
			return -ECHILD;
		if (access(files->ports, F_OK) == 0)
			return 0;
		if (ts_now_ns() >= until_ns)
			return -ETIMEDOUT;
		(void)nanosleep(&step, NULL);
	}
}
