/* SPDX-License-Identifier: MIT */
/* The server of this node, its files and its process: shim/tsrun/server.h explains it. */
#include "shim/tsrun/server.h"
#include "leader/object/limits.h"
#include "shim/identity.h"
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
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOCK_NS UINT64_C(30000000000)
#define TERM_NS UINT64_C(5000000000)
#define KILL_NS UINT64_C(10000000000)

#define RECORD_MAX      (3 * PATH_MAX)
#define CERTIFICATE_MAX (UINT32_C(1) << 20)

static void rest(long ms)
{
	const struct timespec time = {.tv_nsec = ms * 1000000L};

	(void)nanosleep(&time, NULL);
}

/* ---- where ------------------------------------------------------------------------------ */

/* FNV-1a: only names have to differ. */
static uint64_t number_of(const char *text)
{
	uint64_t hash = UINT64_C(14695981039346656037);

	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * UINT64_C(1099511628211);
	return hash;
}

uint64_t ts_server_number_file(const char *path)
{
	char *text = malloc(CERTIFICATE_MAX);
	uint64_t number = 0;

	if (text && ts_sys_read_file(path, text, CERTIFICATE_MAX) > 0)
		number = number_of(text);
	free(text);
	return number;
}

/* Also of one that another node has removed. */
static int resolve(const char *path, char ret_path[PATH_MAX])
{
	char parent[PATH_MAX], found[PATH_MAX];
	size_t length = strlen(path);

	if (realpath(path, ret_path))
		return 0;
	while (length > 1 && path[length - 1] == '/')
		length--;
	if (length >= sizeof(parent))
		return -ENAMETOOLONG;
	memcpy(parent, path, length);
	parent[length] = '\0';
	char *slash = strrchr(parent, '/');
	const char *name = slash ? slash + 1 : parent;
	if (slash)
		*slash = '\0';
	if (!realpath(!slash ? "." : slash == parent ? "/" : parent, found))
		return -errno;
	if (snprintf(ret_path, PATH_MAX, "%s/%s", strcmp(found, "/") == 0 ? "" : found, name) >=
		PATH_MAX)
		return -ENAMETOOLONG;
	return 0;
}

static bool is_own_directory(const char *path)
{
	struct stat st;

	return ts_sys_lstat(path, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
	       (st.st_mode & (S_IRWXG | S_IRWXO)) == 0;
}

/* The @number-th place; false: it cannot be one here. */
static bool name_place(unsigned number, char ret_place[PATH_MAX])
{
	const char *runtime = getenv("XDG_RUNTIME_DIR");
	char parent[PATH_MAX];
	int length;

	if (number == TS_SERVER_PLACES - 1) {
		(void)snprintf(ret_place, PATH_MAX, "/tmp/tsshim.%u", geteuid());
		return true;
	}
	if (number == 0 && (!runtime || runtime[0] != '/'))
		return false;
	if (number == 0)
		length = snprintf(parent, sizeof(parent), "%s", runtime);
	else
		length = snprintf(parent, sizeof(parent), "/run/user/%u", geteuid());
	return length < (int)sizeof(parent) && is_own_directory(parent) &&
	       snprintf(ret_place, PATH_MAX, "%s/tsshim", parent) < PATH_MAX;
}

int ts_server_name_files(const char *place, uint64_t number, struct ts_server_files *files)
{
	const struct {
		char *path;
		const char *suffix;
	} names[] = {{files->record, "record"}, {files->tokens, "tokens"},
		{files->ports, "ports"}, {files->log, "log"}, {files->lock, "lock"},
		{files->list, "list"}};

	for (size_t i = 0; i < TS_ARRAY_SIZE(names); i++)
		if (snprintf(names[i].path, PATH_MAX, "%s/server.%016" PRIx64 ".%s", place,
			    number, names[i].suffix) >= PATH_MAX)
			return -ENAMETOOLONG;
	return 0;
}

static int name_files(const char *place, struct ts_server_files *files)
{
	return ts_server_name_files(place, number_of(files->directory), files);
}

bool ts_server_place(unsigned number, char ret_place[PATH_MAX])
{
	return name_place(number, ret_place) && is_own_directory(ret_place);
}

/* Who started it may have had another environment. */
static bool has_record(struct ts_server_files *files)
{
	char place[PATH_MAX];

	for (unsigned i = 0; i < TS_SERVER_PLACES; i++)
		if (ts_server_place(i, place) && name_files(place, files) == 0 &&
			access(files->record, F_OK) == 0)
			return true;
	return false;
}

int ts_server_find_files(const char *directory, struct ts_server_files *ret_files)
{
	char place[PATH_MAX];
	int r = resolve(directory, ret_files->directory);

	if (r < 0 || has_record(ret_files))
		return r;
	for (unsigned i = 0; i < TS_SERVER_PLACES; i++) {
		if (!name_place(i, place))
			continue;
		r = ts_sys_mkdir(place, 0700);
		if ((r == 0 || r == -EEXIST) && is_own_directory(place))
			return name_files(place, ret_files);
	}
	return -ENOENT;
}

/* Whether the file that is open still has its name: who ends a server removes it. */
static bool is_named(int fd, const char *path)
{
	struct stat open, named;

	return ts_sys_fstat(fd, &open) == 0 && ts_sys_lstat(path, &named) == 0 &&
	       open.st_ino == named.st_ino && open.st_dev == named.st_dev;
}

int ts_server_try_lock(const struct ts_server_files *files)
{
	int fd = ts_sys_open(files->lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return fd;
	int r = ts_sys_flock(fd, LOCK_EX | LOCK_NB);
	if (r == 0 && is_named(fd, files->lock))
		return fd;
	ts_sys_close(fd);
	return r < 0 ? r : -EAGAIN;
}

int ts_server_lock(const struct ts_server_files *files)
{
	uint64_t until_ns = ts_now_ns() + LOCK_NS;

	for (;;) {
		int r = ts_server_try_lock(files);
		if (r != -EAGAIN)
			return r;
		if (ts_now_ns() >= until_ns)
			return -ETIMEDOUT;
		rest(20);
	}
}

/* ---- the record -------------------------------------------------------------------------- */

static void read_boot(char ret_boot[64])
{
	if (ts_sys_read_file("/proc/sys/kernel/random/boot_id", ret_boot, 64) < 0)
		ret_boot[0] = '\0';
	ret_boot[strcspn(ret_boot, "\n")] = '\0';
}

/* The rest of the line of @text that begins with @name and a blank; false: there is none. */
static bool read_field(const char *text, const char *name, char *ret_value, size_t bytes)
{
	size_t length = strlen(name);

	for (const char *line = text; *line;
		line += strcspn(line, "\n"), line += *line == '\n') {
		if (strncmp(line, name, length) != 0 || line[length] != ' ')
			continue;
		const char *value = line + length + 1;
		size_t count = strcspn(value, "\n");
		if (count >= bytes)
			return false;
		memcpy(ret_value, value, count);
		ret_value[count] = '\0';
		return true;
	}
	return false;
}

int ts_server_read_any_record(
	const struct ts_server_files *files, struct ts_server_record *ret_record)
{
	struct ts_server_record record = {0};
	char text[RECORD_MAX], process[24], port[8], certificate[24], pids[24];
	struct stat st;
	int r = ts_sys_lstat(files->record, &st);

	if (r < 0)
		return r;
	if (!S_ISREG(st.st_mode) || st.st_uid != geteuid())
		return -EINVAL;
	r = ts_sys_read_file(files->record, text, sizeof(text));
	if (r < 0)
		return r;
	if (!read_field(text, "process", process, sizeof(process)) ||
		!read_field(text, "boot", record.boot, sizeof(record.boot)) ||
		!read_field(text, "directory", record.directory, sizeof(record.directory)) ||
		!read_field(text, "host", record.host, sizeof(record.host)) ||
		!read_field(text, "port", port, sizeof(port)) ||
		!read_field(text, "certificate", certificate, sizeof(certificate)) ||
		!read_field(text, "nvme", record.nvme, sizeof(record.nvme)) ||
		!read_field(text, "pids", pids, sizeof(pids)))
		return -EINVAL;
	record.pids = strtoull(pids, NULL, 10);
	record.process = strtoull(process, NULL, 10);
	record.port = (uint16_t)strtoul(port, NULL, 10);
	record.certificate = strtoull(certificate, NULL, 10);
	*ret_record = record;
	return 0;
}

int ts_server_read_record(
	const struct ts_server_files *files, struct ts_server_record *ret_record)
{
	int r = ts_server_read_any_record(files, ret_record);

	return r == 0 && strcmp(ret_record->directory, files->directory) != 0 ? -EINVAL : r;
}

/* The number of our PID namespace, in which process numbers mean something; 0: not known. */
static uint64_t own_pids(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) == 0 ? st.st_ino : 0;
}

int ts_server_write_record(const struct ts_server_files *files, struct ts_server_record *record)
{
	char text[RECORD_MAX], path[PATH_MAX + 8];

	read_boot(record->boot);
	(void)snprintf(record->directory, sizeof(record->directory), "%s", files->directory);
	int bytes = snprintf(text, sizeof(text),
		"process %" PRIu64 "\nboot %s\ndirectory %s\nhost %s\nport %u\n"
		"certificate %" PRIu64 "\nnvme %s\npids %" PRIu64 "\n",
		record->process, record->boot, record->directory, record->host, record->port,
		record->certificate, record->nvme, own_pids());
	if (bytes >= (int)sizeof(text))
		return -ENAMETOOLONG;
	(void)snprintf(path, sizeof(path), "%s.new", files->record);
	(void)ts_sys_unlink(path);
	int fd = ts_sys_open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return fd;
	int64_t n = ts_sys_write(fd, text, (size_t)bytes);
	ts_sys_close(fd);
	if (n != bytes)
		return n < 0 ? (int)n : -ENOSPC;
	return ts_sys_rename(path, files->record);
}

/* ---- the process ------------------------------------------------------------------------- */

static bool is_users(pid_t pid)
{
	char path[64], text[2048], *end;
	static const char line[] = "\nUid:\t";

	(void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	if (ts_sys_read_file(path, text, sizeof(text)) < 0)
		return false;
	const char *at = strstr(text, line);
	/* The real one, then the effective one. */
	at = at ? strchr(at + strlen(line), '\t') : NULL;
	return at && strtoul(at + 1, &end, 10) == geteuid() && *end == '\t';
}

/* Whether it was started as a memcached with our file. */
static bool is_memcached(pid_t pid, const char *tokens)
{
	char path[64], name[32], text[4 * PATH_MAX];

	(void)snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	if (ts_sys_read_file(path, name, sizeof(name)) < 0 || strcmp(name, "memcached\n") != 0)
		return false;
	(void)snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
	int bytes = ts_sys_read_file(path, text, sizeof(text));
	for (int at = 0; at < bytes; at += (int)strlen(text + at) + 1)
		if (strcmp(text + at, tokens) == 0)
			return true;
	return false;
}

bool ts_server_is_alive(
	const struct ts_server_files *files, const struct ts_server_record *record)
{
	pid_t pid = TS_PROCESS_PID(record->process);
	char boot[64];

	read_boot(boot);
	return strcmp(boot, record->boot) == 0 && ts_process_is_alive(record->process) &&
	       is_users(pid) && is_memcached(pid, files->tokens);
}

bool ts_server_find_running(const char *directory, struct ts_server_record *ret_record)
{
	struct ts_server_files *files = calloc(1, sizeof(*files));
	bool found = files && resolve(directory, files->directory) == 0 && has_record(files) &&
		     ts_server_read_record(files, ret_record) == 0 &&
		     ts_server_is_alive(files, ret_record);

	free(files);
	return found;
}

int ts_server_index(const struct ts_cluster *cluster, const struct ts_server_record *record)
{
	for (uint32_t i = 0; i < cluster->nodes.count; i++)
		if (cluster->nodes.servers[i].port == record->port &&
			strcmp(cluster->nodes.servers[i].host, record->host) == 0)
			return (int)i;
	return -1;
}

bool ts_server_is_gone(
	const struct ts_server_files *files, const struct ts_server_record *record)
{
	char boot[64];

	read_boot(boot);
	if (strcmp(boot, record->boot) != 0)
		return boot[0] != '\0';
	return record->pids != 0 && record->pids == own_pids() &&
	       !ts_server_is_alive(files, record);
}

/* A descriptor keeps its number from being another process's; older kernels have none. */
static int open_process(pid_t pid)
{
	return (int)syscall(SYS_pidfd_open, pid, 0);
}

static int send_signal(int fd, pid_t pid, int signal)
{
	int r = fd >= 0 ? (int)syscall(SYS_pidfd_send_signal, fd, signal, NULL, 0)
			: kill(pid, signal);

	return r < 0 ? -errno : 0;
}

/* Whether it is gone within that time. */
static bool wait_for_end(uint64_t process, uint64_t within_ns)
{
	uint64_t until_ns = ts_now_ns() + within_ns;

	while (ts_process_is_alive(process)) {
		if (ts_now_ns() >= until_ns)
			return false;
		rest(5);
	}
	return true;
}

int ts_server_end(const struct ts_server_files *files, const struct ts_server_record *record)
{
	pid_t pid = TS_PROCESS_PID(record->process);
	int fd = open_process(pid), r = 0;

	/* Looked at again with the descriptor in hand. */
	if (ts_server_is_alive(files, record)) {
		r = send_signal(fd, pid, SIGTERM);
		if (r == 0 && !wait_for_end(record->process, TERM_NS)) {
			r = send_signal(fd, pid, SIGKILL);
			if (r == 0 && !wait_for_end(record->process, KILL_NS))
				r = -ETIMEDOUT;
		}
	}
	if (fd >= 0)
		ts_sys_close(fd);
	return r == -ESRCH ? 0 : r;
}

void ts_server_renew(const struct ts_server_files *files, const struct ts_server_record *record)
{
	pid_t pid = TS_PROCESS_PID(record->process);
	int fd = open_process(pid);

	if (ts_server_is_alive(files, record))
		(void)send_signal(fd, pid, SIGHUP);
	if (fd >= 0)
		ts_sys_close(fd);
}

void ts_server_clear(const struct ts_server_files *files, const struct ts_server_record *record)
{
	char half[PATH_MAX + 8];

	/* What memcached writes before it is renamed, and leaves where it cannot listen. */
	(void)snprintf(half, sizeof(half), "%s.lck", files->ports);
	(void)ts_sys_unlink(half);
	if (record && record->nvme[0] != '\0')
		(void)ts_sys_unlink(record->nvme);
	(void)ts_sys_unlink(files->tokens);
	(void)ts_sys_unlink(files->ports);
	(void)ts_sys_unlink(files->log);
	(void)ts_sys_unlink(files->list);
	(void)ts_sys_unlink(files->record);
}

void ts_server_remove_files(
	const struct ts_server_files *files, const struct ts_server_record *record)
{
	ts_server_clear(files, record);
	(void)ts_sys_unlink(files->lock);
}

/* ---- starting memcached ------------------------------------------------------------------ */

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
	r = ts_child_run(
		&(struct ts_child){.words = words, .env = none}, ASK_NS, text, 1 << 16);
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

/* ---- the command line -------------------------------------------------------------------- */

struct command {
	const char *words[WORDS_MAX];
	size_t count;
	char port[8], memory[24], threads[8], connections[8];
	char tls[3 * PATH_MAX + 128], store[PATH_MAX + 64];
};

static void add_word(struct command *command, const char *word)
{
	if (command->count + 1 < WORDS_MAX)
		command->words[command->count++] = word;
	command->words[command->count] = NULL;
}

static void add_pair(struct command *command, const char *option, const char *value)
{
	add_word(command, option);
	add_word(command, value);
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
	add_word(command, "-Z");
	add_pair(command, "-o", command->tls);
}

/* Paths with a comma were refused before. */
static void compose_command(struct command *command, const struct ts_memcached *memcached,
	const struct ts_memcached_plan *plan)
{
	(void)snprintf(command->port, sizeof(command->port), "%u", plan->port);
	(void)snprintf(
		command->memory, sizeof(command->memory), "%" PRIu64, plan->memory_bytes / MIB);
	(void)snprintf(command->threads, sizeof(command->threads), "%d", count_threads());
	(void)snprintf(
		command->connections, sizeof(command->connections), "%u", count_connections());
	add_word(command, memcached->program);
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
		add_word(command,
			"-M"); /* what is there stays: a miss is cheaper than a churn */
	if (plan->cluster->tls)
		add_tls(command, plan->cluster);
	if (memcached->has_no_flush)
		add_word(command, "-F");
	if (memcached->has_no_dump)
		add_word(command, "-X");
	if (memcached->has_no_watch)
		add_word(command, "-W");
	/* Else it refuses to be root. */
	if (geteuid() == 0)
		add_pair(command, "-u", "root");
}

/* ---- the process ------------------------------------------------------------------------- */

static void forget_signals(void)
{
	sigset_t none;

	for (int number = 1; number < NSIG; number++)
		(void)signal(number, SIG_DFL);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
}

static _Noreturn void become_server(const struct command *command, const char *ports, int log)
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
	compose_command(command, memcached, plan);
	(void)ts_sys_unlink(plan->files->ports);
	(void)ts_sys_unlink(plan->files->log);
	int log = ts_sys_open(plan->files->log,
		O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	int r = log < 0 ? log : fork();
	if (r == 0)
		become_server(command, plan->files->ports, log);
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
