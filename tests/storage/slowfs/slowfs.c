/* SPDX-License-Identifier: MIT */
/*
 * A pass-through file system that behaves like storage far away; for tests and benchmarks.
 *
 * A number of threads serve requests, each one at a time.  The first thread serves the
 * control socket and waits for the end: a signal, `stop`, the end of the process that
 * --parent names, or an unmount from outside.
 */
#include "slowfs.h"

#include <errno.h>
#include <linux/fuse.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* For threads to see that the tree is unmounted; whoever has files open is cut off then. */
#define END_MS 500

struct options {
	const char *source, *mountpoint, *control;
	int parent; /* a pidfd, or -1 */
};

struct server {
	struct fuse_session *session;
	_Atomic int64_t threads;
	int ended; /* an eventfd: the last thread is gone */
};

static void say(const char *what, int r)
{
	fprintf(stderr, "slowfs: %s: %s\n", what, strerror(-r));
}

static void print_usage(FILE *out)
{
	fputs("usage: slowfs [options] SOURCE MOUNTPOINT\n\n"
	      "Mounts SOURCE, as slow and as faulty as told; stays in the foreground.\n\n"
	      "  --control=DIR\tmake DIR/socket, through which settings are changed and counts "
	      "read\n"
	      "  --parent=PID\tunmount and end when this process has ended\n",
		out);
	slow_print_help(out);
}

static int take_option(const char *text, struct options *options)
{
	enum slow_setting id;
	int64_t value;
	if (strncmp(text, "control=", 8) == 0 && text[8] != '\0') {
		options->control = text + 8;
		return 0;
	}
	if (strncmp(text, "parent=", 7) == 0) {
		options->parent = (int)syscall(SYS_pidfd_open, atoi(text + 7), 0);
		return options->parent < 0 ? -errno : 0;
	}
	int r = slow_parse_setting(text, false, &id, &value);
	if (r == 0)
		slow_put(id, value);
	return r;
}

/* Returns whether to go on; if not, *ret_status is the exit status. */
static bool take_arguments(int argc, char **argv, struct options *options, int *ret_status)
{
	const char *places[2];
	int count = 0;
	*ret_status = 2;
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--help") == 0) {
			print_usage(stdout);
			*ret_status = 0;
			return false;
		}
		int r = 0;
		if (strncmp(argv[i], "--", 2) == 0)
			r = take_option(argv[i] + 2, options);
		else if (count < 2)
			places[count++] = argv[i];
		else
			r = -E2BIG;
		if (r < 0) {
			say(argv[i], r);
			return false;
		}
	}
	if (count < 2) {
		print_usage(stderr);
		return false;
	}
	options->source = places[0];
	options->mountpoint = places[1];
	return true;
}

/* The next answer is the one to FUSE_INIT; nobody else asks anything before it. */
static bool answers_init;

/*
 * Without this flag programs look up names of one directory one after another.  libfuse
 * 3.14 knows it, but leaves it out of its answer, seen with its option debug.
 */
static ssize_t send_answer(int fd, struct iovec *parts, int count, void *data)
{
	if (answers_init) {
		answers_init = false;
		struct fuse_init_out *answer = parts[count - 1].iov_base;
		if (count == 2 && parts[1].iov_len > offsetof(struct fuse_init_out, flags))
			answer->flags |= FUSE_PARALLEL_DIROPS;
	}
	return writev(fd, parts, count);
}

static ssize_t take_request(int fd, void *buffer, size_t bytes, void *data)
{
	return read(fd, buffer, bytes);
}

static const struct fuse_custom_io device_io = {.writev = send_answer, .read = take_request};

static void on_init(void *data, struct fuse_conn_info *connection)
{
	/* Read-ahead in the background leaves threads for programs that wait. */
	connection->max_background = (unsigned)(slow_get(SLOW_THREADS) + 1) / 2;
	connection->congestion_threshold = connection->max_background;
	answers_init = (connection->capable & FUSE_CAP_PARALLEL_DIROPS) != 0;
	/* With 1 the kernel asks for attributes where programs have looked at some before. */
	if (slow_get(SLOW_READDIRPLUS) == 2)
		connection->want &= ~(unsigned)FUSE_CAP_READDIRPLUS_AUTO;
	if (slow_get(SLOW_READDIRPLUS) == 0)
		connection->want &= ~(unsigned)FUSE_CAP_READDIRPLUS;
}

static int mount_tree(const struct options *options, struct fuse_session **ret_session)
{
	char text[256];
	char name[] = "slowfs", flag[] = "-o";
	char *words[] = {name, flag, text, NULL};
	struct fuse_args arguments = FUSE_ARGS_INIT(3, words);
	struct fuse_lowlevel_ops ops = {.init = on_init};
	slow_ops(&ops);
	/* Only root may let others in without a line in fuse.conf. */
	snprintf(text, sizeof(text), "default_permissions,subtype=slowfs,fsname=slowfs%s",
		geteuid() == 0 ? ",allow_other" : "");
	struct fuse_session *session = fuse_session_new(&arguments, &ops, sizeof(ops), NULL);
	if (!session)
		return -EINVAL;
	if (fuse_session_mount(session, options->mountpoint) != 0) {
		fuse_session_destroy(session);
		return -ENODEV;
	}
	if (fuse_session_custom_io(session, &device_io, fuse_session_fd(session)) != 0) {
		fuse_session_unmount(session);
		fuse_session_destroy(session);
		return -ENOMEM;
	}
	*ret_session = session;
	return 0;
}

static void *serve(void *data)
{
	struct server *server = data;
	struct fuse_buf request = {.mem = NULL};
	while (!fuse_session_exited(server->session)) {
		int r = fuse_session_receive_buf(server->session, &request);
		if (r == -EINTR)
			continue;
		if (r <= 0)
			break;
		fuse_session_process_buf(server->session, &request);
	}
	free(request.mem);
	if (atomic_fetch_sub(&server->threads, 1) == 1)
		(void)eventfd_write(server->ended, 1);
	return NULL;
}

static int start_threads(struct server *server)
{
	pthread_attr_t attributes;
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	int64_t count = slow_get(SLOW_THREADS);
	int r = 0;
	/* All at once, or the first could end before the last has begun. */
	atomic_store(&server->threads, count);
	for (int64_t i = 0; i < count && r == 0; i++) {
		pthread_t thread;
		r = pthread_create(&thread, &attributes, serve, server);
	}
	pthread_attr_destroy(&attributes);
	return -r;
}

/* Until something says that it is over. */
static void wait_for_end(const struct options *options, int signals, int ended, int control)
{
	struct pollfd fds[] = {
		{.fd = signals, .events = POLLIN},
		{.fd = ended, .events = POLLIN},
		{.fd = options->parent, .events = POLLIN},
		{.fd = control, .events = POLLIN},
	};
	for (;;) {
		if (poll(fds, 4, -1) < 0 && errno != EINTR)
			return;
		if (fds[0].revents || fds[1].revents || fds[2].revents)
			return;
		if (fds[3].revents && !slow_control_answer(control))
			return;
	}
}

/*
 * Take the tree away even if it is in use.  With the process its connection ends, which
 * wakes whoever still waits for an answer; ending without goodbye is what makes that sure.
 */
static void unmount_tree(const char *mountpoint, struct server *server)
{
	struct pollfd ended = {.fd = server->ended, .events = POLLIN};
	slow_pace_stop();
	if (atomic_load(&server->threads) == 0)
		return;
	if (geteuid() == 0)
		(void)umount2(mountpoint, MNT_DETACH | UMOUNT_NOFOLLOW);
	else
		fuse_session_unmount(server->session);
	(void)poll(&ended, 1, END_MS);
}

static int block_signals(void)
{
	sigset_t signals;
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGHUP);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	(void)signal(SIGPIPE, SIG_IGN);
	return signalfd(-1, &signals, SFD_CLOEXEC);
}

static int run(const struct options *options)
{
	struct server server = {.ended = eventfd(0, EFD_CLOEXEC)};
	int control = -1;
	int signals = block_signals();
	/* A latency of 100 us is to take 100, not 150; and modes are the caller's. */
	(void)prctl(PR_SET_TIMERSLACK, 1ul);
	umask(0);
	int r = slow_pace_init();
	if (r == 0 && (r = slow_tree_init(options->source)) < 0)
		say(options->source, r);
	/* Absolute, for the day when it is taken away. */
	char *mountpoint = r == 0 ? realpath(options->mountpoint, NULL) : NULL;
	if (r == 0 && !mountpoint)
		say(options->mountpoint, r = -errno);
	if (r == 0 && (r = mount_tree(options, &server.session)) < 0)
		say(options->mountpoint, r);
	if (r == 0) {
		r = start_threads(&server);
		if (r == 0 && options->control &&
			(r = slow_control_init(options->control, &control)) < 0)
			say(options->control, r);
		if (r == 0)
			wait_for_end(options, signals, server.ended, control);
		unmount_tree(mountpoint, &server);
		slow_control_finish(control);
	}
	/* Threads may still use what a tidy end would free. */
	_exit(r == 0 ? 0 : 1);
}

int main(int argc, char **argv)
{
	struct options options = {.parent = -1};
	int status;
	if (!take_arguments(argc, argv, &options, &status))
		return status;
	return run(&options);
}
