/* SPDX-License-Identifier: MIT */
/* What a job removes of other groups, whose jobs are dead, and what it must leave. */
#include "../clock.h"
#include "fixture.h"
#include "leader/group/left.h"
#include "shim/hash.h"
#include "shim/identity.h"
#include "shim/sys.h"
#include "tests/unit/valgrind.h"

static void make_at(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);

	cr_assert(ge(int, fd, 0), "%s: %s", path, strerror(errno));
	close(fd);
}

static void make(const char *suffix)
{
	make_at(fixture_path(suffix));
}

static void *join(void *unused)
{
	return fixture_attach(JOB_A);
}

/* A member that says it is there, and waits. */
static struct fixture_child begin_member(void)
{
	return fixture_child_begin(join, NULL, NULL);
}

/* A group all of whose members were killed. */
static void make_dead_group(void)
{
	struct fixture_child member = begin_member();

	fixture_child_kill(&member);
	cr_assert(fixture_exists("ring") && fixture_exists("ledger"));
}

static void begin_dead(void)
{
	fixture_init();
	make_dead_group();
}

TestSuite(left, .init = fixture_init, .fini = fixture_finish, .timeout = 60);
TestSuite(left_dead, .init = begin_dead, .fini = fixture_finish, .timeout = 60);

static void look(void)
{
	ts_left_remove(NULL, TS_LEFT_ALL);
}

static void expect_gone(void)
{
	look();
	cr_expect(not(fixture_exists("ring")));
}

static void expect_kept(const char *why)
{
	look();
	cr_expect(fixture_exists("ring"), "%s", why);
}

Test(left_dead, what_dead_jobs_left_goes_but_for_the_ledger)
{
	for (uint32_t i = 0; i < TS_DEPENDENTS; i++)
		make(ts_dependents[i].suffix);
	make("f.0123456789abcdef0123456789abcdef");
	look();
	for (uint32_t i = 0; i < TS_DEPENDENTS; i++)
		cr_expect(not(fixture_exists(ts_dependents[i].suffix)), "%s",
			ts_dependents[i].suffix);
	cr_expect(not(fixture_exists("f.0123456789abcdef0123456789abcdef")));
	cr_expect(not(fixture_exists("ring")));
	cr_expect(fixture_exists("ledger"));
}

Test(left, a_zombie_is_dead)
{
	struct fixture_child member = begin_member();

	kill(member.pid, SIGKILL);
	siginfo_t info;
	cr_assert(eq(int, waitid(P_PID, (id_t)member.pid, &info, WEXITED | WNOWAIT), 0));
	expect_gone();
	fixture_child_kill(&member);
}

Test(left, a_living_or_stopped_member_keeps_its_things)
{
	NOT_EMULATED("a child is told its parent's start time, so who lives is not known");
	struct fixture_child member = begin_member();
	int status;

	make("loaders");
	expect_kept("alive");
	kill(member.pid, SIGSTOP);
	cr_assert(eq(int, waitpid(member.pid, &status, WUNTRACED), member.pid));
	expect_kept("stopped");
	cr_expect(fixture_exists("loaders"));
	fixture_child_kill(&member);
	expect_gone();
	cr_expect(not(fixture_exists("loaders")));
}

/* Hosts close descriptors that they do not know; the process is there all the same. */
static int look_for_ring(void *unused)
{
	look();
	return fixture_exists("ring") ? 0 : 1;
}

static int lose_the_lock(void *unused)
{
	struct ts_store *store = fixture_attach(JOB_A);

	close(ts_load_relaxed(&store->ring.fd));
	return fixture_fork(look_for_ring, NULL) == 0 ? 0 : 1;
}

Test(left, a_member_without_its_lock_keeps_its_things)
{
	NOT_EMULATED("a child is told its parent's start time, so who lives is not known");
	cr_expect(eq(int, fixture_fork(lose_the_lock, NULL), 0));
}

static void *lock_a_slot(void *fd)
{
	return ts_object_lock_byte(*(int *)fd, ts_member_lock_byte(7), F_WRLCK) == 0 ? fd
										     : NULL;
}

/* A joiner has the lock byte of its slot before it has written its name. */
Test(left_dead, who_joins_keeps_it)
{
	int fd = open(fixture_path("ring"), O_RDWR);
	struct fixture_child joiner = fixture_child_begin(lock_a_slot, NULL, &fd);

	expect_kept("locked");
	fixture_child_end(&joiner, 0);
	expect_gone();
}

/* Between two epochs there is no member. */
Test(left_dead, a_job_without_a_member_keeps_its_things)
{
	struct ts_ledger *ledger;
	struct ts_object book = {.fd = -1};
	struct ts_scope scope;

	memcpy(book.path, fixture_path("ledger"), sizeof(book.path));
	cr_assert(eq(int, ts_scope_read(&scope), 0));
	cr_assert(eq(int, ts_ledger_open(&scope, &book, &ledger), 0));
	uint64_t self = ts_process_id(getpid(), false);
	cr_assert(ge(int, ts_ledger_find_job(ledger, self), 0));
	expect_kept("a job lives");
	ts_ledger_end_job(ledger, self);
	look();
	cr_expect(not(fixture_exists("ring")), "it has said that it leaves");
}

/* Overwrite @bytes of the object, and make its check right again when @check_at is not 0. */
static void forge(
	const char *suffix, size_t at, const void *data, size_t bytes, size_t check_at)
{
	uint8_t head[256];
	int fd = open(fixture_path(suffix), O_RDWR);

	cr_assert(eq(int, (int)pread(fd, head, sizeof(head), 0), (int)sizeof(head)));
	memcpy(head + at, data, bytes);
	if (check_at != 0) {
		uint64_t check = ts_hash64(head, check_at);
		memcpy(head + check_at, &check, sizeof(check));
	}
	cr_assert(eq(int, (int)pwrite(fd, head, sizeof(head), 0), (int)sizeof(head)));
	close(fd);
}

Test(left_dead, a_kept_ring_goes_when_its_time_is_over)
{
	const size_t at = offsetof(struct ts_ring_header, kept_until_ns);
	uint64_t until;

	int fd = open(fixture_path("ring"), O_RDWR);
	clock_begin();
	until = ts_now_ns() + 1000;
	cr_assert(eq(int, (int)pwrite(fd, &until, sizeof(until), (off_t)at), 8));
	close(fd);
	expect_kept("kept");
	clock_pass(1001);
	look();
	clock_end();
	cr_expect(not(fixture_exists("ring")));
}

/* Each in both objects: what cannot be proven, or is not ours, is left to `tsrun gc`. */
Test(left_dead, other_versions_boots_and_namespaces_are_left_alone)
{
	static const struct {
		const char *what;
		size_t at;
	} fields[] = {
		{"version", offsetof(struct ts_object_head, abi)},
		{"boot", offsetof(struct ts_object_head, boot_id)},
		{"namespace", offsetof(struct ts_object_head, pid_ns)},
		{"user", offsetof(struct ts_object_head, uid)},
		{"kind", offsetof(struct ts_object_head, magic)},
	};
	static const struct {
		const char *suffix;
		size_t check_at;
	} objects[] = {
		{"ring", offsetof(struct ts_ring_header, check)},
		{"ledger", offsetof(struct ts_ledger, check)},
	};
	const uint32_t other = 0x7fffffff;
	uint8_t before[256];

	for (size_t i = 0; i < TS_ARRAY_SIZE(objects); i++)
		for (size_t j = 0; j < TS_ARRAY_SIZE(fields); j++) {
			int fd = open(fixture_path(objects[i].suffix), O_RDONLY);
			cr_assert(eq(int, (int)pread(fd, before, sizeof(before), 0), 256));
			close(fd);
			forge(objects[i].suffix, fields[j].at, &other, sizeof(other),
				objects[i].check_at);
			expect_kept(fields[j].what);
			forge(objects[i].suffix, 0, before, sizeof(before), 0);
		}
	expect_gone();
}

Test(left_dead, damaged_ones_are_left_alone)
{
	forge("ring", 60, "x", 1, 0);
	expect_kept("damaged ring");
	look();
	unlink(fixture_path("ring"));
	make_dead_group();
	forge("ledger", 40, "x", 1, 0);
	expect_kept("damaged ledger");
	unlink(fixture_path("ledger"));
	expect_kept("no ledger");
	cr_assert(eq(int, truncate(fixture_path("ring"), 100), 0));
	expect_kept("cut");
}

Test(left_dead, what_is_no_file_of_ours_is_left_alone)
{
	cr_assert(eq(int, chmod(fixture_path("ring"), 0640), 0));
	expect_kept("open to others");
	unlink(fixture_path("ring"));
	cr_assert(eq(int, symlink("/etc/passwd", fixture_path("ring")), 0));
	expect_kept("symbolic link");
	unlink(fixture_path("ring"));
	cr_assert(eq(int, mkfifo(fixture_path("ring"), 0600), 0));
	expect_kept("FIFO");
}

/* Names that only look alike, and the longest one there can be. */
Test(left, look_alikes_are_left_alone)
{
	char path[400];
	const char *const names[] = {
		"tsshim.ring", "tsshim.0.1-2.x.ring", "ring", "x.ring", "tsshim.0.1-2.x.new.1"};

	for (size_t i = 0; i < TS_ARRAY_SIZE(names); i++) {
		snprintf(path, sizeof(path), "%s/%s", getenv("TSSHIM_TEST_SHM"), names[i]);
		make_at(path);
	}
	make("new.0");
	make("new.x");
	make("new.99999999999");
	snprintf(path, sizeof(path), "%s", fixture_path("x"));
	char *name = strrchr(path, '/') + 1;
	size_t length = strlen(name);
	memset(name + length - 1, 'y', 255 - length);
	strcpy(name + 250, ".ring");
	make_at(path);
	look();
	cr_expect(eq(int, access(path, F_OK), 0));
	cr_expect(fixture_exists("new.0") && fixture_exists("new.x") &&
		  fixture_exists("new.99999999999"));
	for (size_t i = 0; i < TS_ARRAY_SIZE(names); i++) {
		snprintf(path, sizeof(path), "%s/%s", getenv("TSSHIM_TEST_SHM"), names[i]);
		cr_expect(eq(int, access(path, F_OK), 0), "%s", names[i]);
	}
}

Test(left, half_made_objects_go_with_their_maker)
{
	char suffix[32];
	int status;

	snprintf(suffix, sizeof(suffix), "new.%d", (int)getpid());
	make(suffix);
	look();
	cr_expect(fixture_exists(suffix), "we live");
	pid_t pid = fork();
	if (pid == 0)
		_exit(0);
	cr_assert(eq(int, waitpid(pid, &status, 0), pid));
	snprintf(suffix, sizeof(suffix), "new.%d", (int)pid);
	make(suffix);
	look();
	cr_expect(not(fixture_exists(suffix)));
}

/* Whether somebody else sees our lock byte. */
static int sees_our_lock(void *context)
{
	const int32_t *member = context;
	int fd = open(fixture_path("ring"), O_RDWR);

	return ts_object_lock_byte(fd, ts_member_lock_byte((uint32_t)*member), F_WRLCK) ==
			       -EAGAIN
		       ? 0
		       : 1;
}

/* Closing any descriptor of it would drop the lock that proves that we live. */
Test(left, the_own_group_is_not_touched)
{
	struct ts_store *store = fixture_attach(JOB_A);

	ts_left_remove(fixture_group(), TS_LEFT_ALL);
	cr_expect(eq(int, fixture_fork(sees_our_lock, &store->member), 0));
	fixture_detach(store);
	cr_expect(not(fixture_exists("ring")));
}

Test(left_dead, without_time_nothing_is_done)
{
	ts_left_remove(NULL, 0);
	cr_expect(fixture_exists("ring"));
}

/* ---- beside others ---------------------------------------------------------------------- */

static pid_t start_looker(const char *variable, const char *point)
{
	pid_t pid = fork();

	if (pid == 0) {
		setenv(variable, point, 1);
		look();
		_exit(0);
	}
	return pid;
}

/* A looker that has stopped at @point. */
static pid_t stop_looker(const char *point)
{
	pid_t pid = start_looker("TSSHIM_TEST_STOP", point);
	int status;

	cr_assert(eq(int, waitpid(pid, &status, WUNTRACED), pid));
	cr_assert(ne(int, WIFSTOPPED(status), 0));
	return pid;
}

static void go_on(pid_t pid)
{
	int status = -1;

	kill(pid, SIGCONT);
	cr_assert(eq(int, waitpid(pid, &status, 0), pid));
	cr_expect(eq(int, status, 0));
}

Test(left_dead, of_two_lookers_one_removes)
{
	pid_t first = stop_looker("left_locked");
	expect_kept("the first one has the lock");
	go_on(first);
	cr_expect(not(fixture_exists("ring")));
}

/* Who cannot have the lock works alone for a while, and makes a ring of its own then. */
Test(left_dead, who_joins_meanwhile_gets_a_ring_that_stays)
{
	enum ts_reason why;
	struct stat before, after;

	cr_assert(eq(int, stat(fixture_path("ring"), &before), 0));
	pid_t looker = stop_looker("left_locked");
	cr_expect(eq(int, fixture_refused(RING_BYTES, &why), -EAGAIN));
	go_on(looker);
	(void)fixture_attach(JOB_B);
	cr_assert(eq(int, stat(fixture_path("ring"), &after), 0));
	cr_expect(ne(u64, (uint64_t)before.st_ino, (uint64_t)after.st_ino));
	expect_kept("used");
}

/* The looker has asked, and meanwhile somebody joined and left again, and another joined. */
Test(left_dead, who_joined_before_the_lock_was_had_stays)
{
	struct fixture_child member = begin_member();
	expect_kept("it has replaced the ring");
	fixture_child_kill(&member);
}

/*
 * It has asked; meanwhile the ring is replaced, and who did so finds the lock held when it
 * leaves, and goes.  So the new ring is the looker's to remove.
 */
Test(left_dead, who_lets_go_of_the_lock_looks_again)
{
	pid_t looker = stop_looker("left_asked");
	struct ts_store *store = fixture_attach(JOB_B);
	cr_assert(ts_member_stop(store));
	ts_member_leave(store);
	ts_object_close(&store->ring);
	ts_object_close(&store->ledger_object);
	fixture_forget(store);
	cr_assert(fixture_exists("ring"));
	go_on(looker);
	cr_expect(not(fixture_exists("ring")));
}

static void *lock_the_book(void *unused)
{
	static struct ts_object book = {.fd = -1};

	memcpy(book.path, fixture_path("ledger"), sizeof(book.path));
	bool held = ts_object_open(&book) == 0 &&
		    ts_object_lock_byte(ts_load_relaxed(&book.fd), 0, F_WRLCK) == 0;
	return held ? &book : NULL;
}

/* As in test_attach.c: the last one that leaves finds the lock held, and goes. */
Test(left, who_holds_the_lock_removes_what_the_last_one_had_to_leave)
{
	NOT_EMULATED("a child is told its parent's start time, so who lives is not known");
	struct ts_store *store = fixture_attach(JOB_A);
	struct fixture_child holder = fixture_child_begin(lock_the_book, NULL, NULL);

	fixture_detach(store);
	cr_assert(fixture_exists("ring"), "somebody holds the lock");
	expect_kept("the same");
	fixture_child_end(&holder, 0);
	expect_gone();
}

/* ---- killed at every step --------------------------------------------------------------- */

static const char *const points[] = {
#define TS_X(name) #name,
	TS_LEFT_KILLPOINTS(TS_X)
#undef TS_X
};

/* Let a looker be killed at @point when it is there for the @visit-th time. */
static bool is_killed(const char *point, uint32_t visit)
{
	char text[64];
	int status;

	make_dead_group();
	for (uint32_t i = 0; i < TS_DEPENDENTS; i++)
		make(ts_dependents[i].suffix);
	snprintf(text, sizeof(text), "%s:%u", point, visit);
	pid_t pid = start_looker("TSSHIM_TEST_KILL", text);
	cr_assert(eq(int, waitpid(pid, &status, 0), pid));
	return WIFSIGNALED(status);
}

static void expect_nothing_but_the_ledger(const char *point, uint32_t visit)
{
	cr_expect(not(fixture_exists("ring")), "%s:%u", point, visit);
	for (uint32_t i = 0; i < TS_DEPENDENTS; i++)
		cr_expect(not(fixture_exists(ts_dependents[i].suffix)), "%s:%u %s", point,
			visit, ts_dependents[i].suffix);
	cr_expect(fixture_exists("ledger"), "%s:%u", point, visit);
}

Test(left, the_next_looker_ends_what_a_killed_one_began)
{
	for (size_t i = 0; i < TS_ARRAY_SIZE(points); i++) {
		uint32_t visit = 1;
		for (; is_killed(points[i], visit); visit++) {
			look();
			expect_nothing_but_the_ledger(points[i], visit);
		}
		cr_expect(gt(u32, visit, 1), "%s is not passed", points[i]);
	}
}

Test(left, the_next_job_ends_what_a_killed_looker_began)
{
	for (size_t i = 0; i < TS_ARRAY_SIZE(points); i++)
		for (uint32_t visit = 1; is_killed(points[i], visit); visit++) {
			if (fixture_exists("ring"))
				fixture_detach(fixture_attach(JOB_B));
			expect_nothing_but_the_ledger(points[i], visit);
		}
}
