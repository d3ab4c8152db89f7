/* SPDX-License-Identifier: MIT */
/* Whose shared memory is joined, whose is refused, and when it goes away. */
#include "../clock.h"
#include "fixture.h"
#include "shim/hash.h"
#include "shim/identity.h"
#include "tests/unit/valgrind.h"

#include <sched.h>
#include <time.h>

TestSuite(attach, .init = fixture_init, .fini = fixture_finish);
TestSuite(attached, .init = fixture_alone_init, .fini = fixture_finish);

/* A well-formed group whose ring stays although nobody is attached: its maker is killed. */
static int attach_and_die(void *unused)
{
	fixture_attach(JOB_A);
	raise(SIGKILL);
	return 1;
}

static void begin_abandoned(void)
{
	fixture_init();
	cr_assert(fixture_is_killed(attach_and_die, NULL));
}

TestSuite(abandoned, .init = begin_abandoned, .fini = fixture_finish);

/* Overwrite @bytes of an object of the group. */
static void patch(const char *suffix, size_t offset, const void *data, size_t bytes)
{
	int fd = open(fixture_path(suffix), O_WRONLY);

	cr_assert(ge(int, fd, 0));
	cr_assert(eq(int, (int)pwrite(fd, data, bytes, (off_t)offset), (int)bytes));
	close(fd);
}

static struct ts_ring_header read_header(void)
{
	struct ts_ring_header header;
	int fd = open(fixture_path("ring"), O_RDONLY);

	cr_assert(eq(int, (int)pread(fd, &header, sizeof(header), 0), (int)sizeof(header)));
	close(fd);
	return header;
}

/* Change one field of the ring's header and make its check right again. */
static void forge_ring(size_t offset, const void *data, size_t bytes)
{
	struct ts_ring_header header = read_header();

	memcpy((char *)&header + offset, data, bytes);
	header.check = ts_hash64(&header, offsetof(struct ts_ring_header, check));
	patch("ring", 0, &header, sizeof(header));
}

#define FORGE(field, value)                                                \
	forge_ring(offsetof(struct ts_ring_header, field),                 \
		&(__typeof__(((struct ts_ring_header *)0)->field)){value}, \
		sizeof(((struct ts_ring_header *)0)->field))

Test(attach, names_carry_the_namespaces)
{
	char wanted[TS_PATH_BYTES];
	struct stat user, pid;

	cr_assert(eq(int, stat("/proc/self/ns/user", &user), 0));
	cr_assert(eq(int, stat("/proc/self/ns/pid", &pid), 0));
	snprintf(wanted, sizeof(wanted), "%s/tsshim.%u.%llu-%llu.%s.ring",
		getenv("TSSHIM_TEST_SHM"), (unsigned)geteuid(), (unsigned long long)user.st_ino,
		(unsigned long long)pid.st_ino, fixture_group());
	cr_expect(eq(str, (char *)fixture_path("ring"), wanted));
}

/* In the child the process ids are others; what its parent knew of itself is not asked. */
static int name_in_user_namespace(void *before)
{
	if (unshare(CLONE_NEWUSER) < 0)
		return 77;
	return strcmp(fixture_path("ring"), before) == 0 ? 1 : 0;
}

Test(attach, names_follow_a_child_into_other_namespaces)
{
	NOT_EMULATED("user namespaces cannot be made with its thread");
	char before[TS_PATH_BYTES];

	strcpy(before, fixture_path("ring"));
	int r = fixture_fork(name_in_user_namespace, before);
	if (r == 77)
		cr_skip_test("user namespaces cannot be made here");
	cr_expect(eq(int, r, 0));
	cr_expect(eq(str, (char *)fixture_path("ring"), before));
}

Test(attached, objects_are_private_and_complete)
{
	struct stat st;

	cr_assert(eq(int, stat(fixture_path("ring"), &st), 0));
	cr_expect(eq(int, (int)(st.st_mode & 07777), 0600));
	cr_expect(eq(u64, (uint64_t)st.st_size, joined.a->shape.total_bytes));
	cr_assert(eq(int, stat(fixture_path("ledger"), &st), 0));
	cr_expect(eq(int, (int)(st.st_mode & 07777), 0600));
	cr_expect(eq(u64, (uint64_t)st.st_size, TS_LEDGER_BYTES));
}

Test(attach, last_one_out_unlinks_the_ring_and_keeps_the_ledger)
{
	struct ts_store *one = fixture_attach(JOB_A);
	struct ts_store *two = fixture_attach(JOB_B);

	fixture_detach(one);
	cr_expect(fixture_exists("ring"), "a member is left");
	fixture_detach(two);
	cr_expect(not(fixture_exists("ring")));
	cr_expect(fixture_exists("ledger"));
}

Test(attached, ring_stays_while_a_job_of_the_ledger_lives)
{
	/* Our parent stands for a job whose workers come and go. */
	uint64_t parent = ts_process_id(getppid(), false);
	ts_write_relaxed(&ts_ledger_job(ts_store_ledger(joined.a), 0)->id, parent);
	fixture_detach(joined.a);
	cr_expect(fixture_exists("ring"));
}

Test(attached, own_job_does_not_keep_the_ring)
{
	uint64_t self = ts_process_id(getpid(), false);

	ts_write_relaxed(&ts_ledger_job(ts_store_ledger(joined.a), 0)->id, self);
	fixture_detach(joined.a);
	cr_expect(not(fixture_exists("ring")));
}

Test(abandoned, abandoned_ring_is_replaced)
{
	struct stat before, after;

	cr_assert(eq(int, stat(fixture_path("ring"), &before), 0));
	(void)fixture_attach(JOB_A);
	cr_assert(eq(int, stat(fixture_path("ring"), &after), 0));
	cr_expect(ne(u64, (uint64_t)before.st_ino, (uint64_t)after.st_ino));
}

static void expect_refused(const char *what, int error, enum ts_reason reason)
{
	struct stat before, after;
	const char *path = fixture_path("ring");
	enum ts_reason why = TS_REASON_COUNT;

	cr_assert(eq(int, lstat(path, &before), 0));
	cr_expect(eq(int, fixture_refused(RING_BYTES, &why), error), "%s", what);
	cr_expect(eq(int, why, reason), "%s", what);
	cr_assert(eq(int, lstat(path, &after), 0));
	cr_expect(
		eq(u64, (uint64_t)before.st_ino, (uint64_t)after.st_ino), "%s: replaced", what);
}

Test(attach, squatters_are_refused_and_left_alone)
{
	const char *path = fixture_path("ring");

	cr_assert(eq(int, symlink("/etc/passwd", path), 0));
	expect_refused("symbolic link", -EPERM, TS_REASON_STORE_FOREIGN);
	unlink(path);
	cr_assert(eq(int, mkfifo(path, 0600), 0));
	expect_refused("FIFO", -EPERM, TS_REASON_STORE_FOREIGN);
	unlink(path);
	cr_assert(eq(int, mkdir(path, 0700), 0));
	expect_refused("directory", -EPERM, TS_REASON_STORE_FOREIGN);
	rmdir(path);
}

Test(abandoned, objects_open_to_others_are_refused)
{
	cr_assert(eq(int, chmod(fixture_path("ring"), 0640), 0));
	expect_refused("mode 0640", -EPERM, TS_REASON_STORE_FOREIGN);
	cr_assert(eq(int, chmod(fixture_path("ring"), 0600), 0));
	cr_assert(eq(int, chmod(fixture_path("ledger"), 0602), 0));
	expect_refused("ledger of mode 0602", -EPERM, TS_REASON_STORE_FOREIGN);
}

Test(abandoned, objects_of_somebody_else_are_refused)
{
	if (chown(fixture_path("ring"), 12345, (gid_t)-1) != 0) {
		fixture_finish(); /* which a skipped test does not come to */
		cr_skip_test("needs root to give a file away");
	}
	expect_refused("another owner", -EPERM, TS_REASON_STORE_FOREIGN);
}

Test(attached, garbage_is_refused)
{
	const char *path = fixture_path("ring");
	char garbage[8192];

	fixture_detach(joined.a);
	memset(garbage, 0xa5, sizeof(garbage));
	int fd = open(path, O_CREAT | O_EXCL | O_RDWR, 0600);
	expect_refused("empty file", -EBADMSG, TS_REASON_STORE_DAMAGED);
	cr_assert(eq(int, (int)write(fd, garbage, 100), 100));
	expect_refused("100 bytes", -EBADMSG, TS_REASON_STORE_DAMAGED);
	cr_assert(eq(int, (int)write(fd, garbage, sizeof(garbage)), (int)sizeof(garbage)));
	expect_refused("8 KiB of garbage", -EBADMSG, TS_REASON_STORE_DAMAGED);
	close(fd);
}

Test(abandoned, every_damaged_byte_of_the_header_is_noticed)
{
	struct ts_ring_header header = read_header();

	for (size_t i = 0; i < offsetof(struct ts_ring_header, check) + 8; i++) {
		unsigned char good = ((unsigned char *)&header)[i], bad = good ^ 0x10;
		enum ts_reason reason;
		patch("ring", i, &bad, 1);
		int r = fixture_refused(RING_BYTES, &reason);
		cr_expect(r == -EBADMSG || r == -EPROTO, "byte %zu: %d", i, r);
		patch("ring", i, &good, 1);
	}
}

Test(abandoned, header_fields_that_do_not_fit_are_refused)
{
	const struct ts_ring_header good = read_header();
	uint8_t other[16] = {1, 2, 3};

	FORGE(head.abi, TS_ABI + 1);
	expect_refused("newer ABI", -EPROTO, TS_REASON_STORE_ABI);
	FORGE(head.abi, TS_ABI);
	FORGE(head.uid, geteuid() + 1);
	expect_refused("another user's header", -EPERM, TS_REASON_STORE_FOREIGN);
	FORGE(head.uid, geteuid());
	FORGE(head.pid_ns, 1);
	expect_refused("another namespace", -EXDEV, TS_REASON_STORE_SCOPE);
	patch("ring", 0, &good, sizeof(good));
	forge_ring(offsetof(struct ts_ring_header, head.boot_id), other, sizeof(other));
	expect_refused("another boot", -EXDEV, TS_REASON_STORE_SCOPE);
}

static const struct {
	size_t offset;
	size_t bytes;
	uint64_t value;
} lies[] = {
#define LIE(field, value)                                                  \
	{                                                                  \
		offsetof(struct ts_ring_header, field),                    \
			sizeof(((struct ts_ring_header *)0)->field), value \
	}
	LIE(segment_count, 0),
	LIE(segment_count, 1u << 30),
	LIE(segment_count, 7),
	LIE(segment_bytes, 0),
	LIE(segment_bytes, 4096),
	LIE(segment_bytes, UINT64_C(1) << 40),
	LIE(segment_bytes, (1u << 20) + 4096),
	LIE(set_count, 0),
	LIE(set_count, 3),
	LIE(set_count, 1u << 31),
	LIE(member_count, 4096),
	LIE(members_at, 0),
	LIE(segments_at, UINT64_MAX),
	LIE(directory_at, 64),
	LIE(data_at, 4096),
	LIE(total_bytes, UINT64_C(1) << 50),
};

Test(abandoned, lies_in_a_well_signed_header_are_refused)
{
	struct ts_ring_header good = read_header();

	for (size_t i = 0; i < TS_ARRAY_SIZE(lies); i++) {
		char what[32];
		snprintf(what, sizeof(what), "lie %zu", i);
		forge_ring(lies[i].offset, &lies[i].value, lies[i].bytes);
		expect_refused(what, -EBADMSG, TS_REASON_STORE_DAMAGED);
		patch("ring", 0, &good, sizeof(good));
	}
	/* The original is well: what was refused above was refused for the lie. */
	fixture_detach(fixture_attach(JOB_A));
}

Test(abandoned, truncated_ring_is_refused)
{
	cr_assert(eq(int, truncate(fixture_path("ring"), 1 << 20), 0));
	expect_refused("truncated", -EBADMSG, TS_REASON_STORE_DAMAGED);
}

Test(abandoned, damaged_ledger_is_refused)
{
	enum ts_reason reason;
	uint32_t abi = TS_ABI + 1;

	patch("ledger", offsetof(struct ts_ledger, head.abi), &abi, sizeof(abi));
	cr_expect(eq(int, fixture_refused(RING_BYTES, &reason), -EPROTO));
	patch("ledger", 0, "garbage", 8);
	cr_expect(eq(int, fixture_refused(RING_BYTES, &reason), -EBADMSG));
	cr_assert(eq(int, truncate(fixture_path("ledger"), 100), 0));
	cr_expect(eq(int, fixture_refused(RING_BYTES, &reason), -EBADMSG));
}

Test(attach, bad_group_names_are_refused)
{
	static const char *const names[] = {"", ".hidden", "a/b", "../x", "a b", "\xc3\xa4"};

	for (size_t i = 0; i < TS_ARRAY_SIZE(names); i++) {
		struct ts_attach_options options = {.ring_bytes = RING_BYTES, .job = JOB_A};
		struct ts_store *store = NULL;
		enum ts_reason reason;
		snprintf(options.group, sizeof(options.group), "%s", names[i]);
		cr_expect(
			eq(int, ts_store_attach(&options, &store, &reason), -EINVAL), "%zu", i);
		cr_expect(eq(int, reason, TS_REASON_NO_STORE));
	}
}

static void *hold_the_lock(void *fd)
{
	*(int *)fd = open(fixture_path("ledger"), O_RDWR);
	return ts_object_lock_byte(*(int *)fd, 0, F_WRLCK) == 0 ? fd : NULL;
}

Test(attach, held_lock_costs_50_ms_and_no_more, .timeout = 60)
{
	int fd;
	enum ts_reason reason;

	fixture_detach(fixture_attach(JOB_A));
	struct fixture_child holder = fixture_child_begin(hold_the_lock, NULL, &fd);
	clock_begin();
	cr_expect(eq(int, fixture_refused(RING_BYTES, &reason), -EAGAIN));
	cr_expect(ge(u64, clock_passed(), 40000000));
	cr_expect(le(u64, clock_passed(), 50000000));
	clock_end();
	fixture_child_kill(&holder);
	cr_expect(eq(int, reason, TS_REASON_NO_STORE));
	fixture_detach(fixture_attach(JOB_A));
}

Test(attached, descriptors_closed_by_the_host_are_found_again)
{
	cr_expect(ge(int, joined.a->ring.fd, 512));
	fixture_capture(joined.a, true);
	close(joined.a->ring.fd);
	close(joined.a->ledger_object.fd);
	/* Somebody else's file gets the number: it must be neither used nor closed. */
	int other = open("/dev/null", O_RDWR);
	cr_assert(eq(int, dup2(other, 512), 512));
	fixture_publish(joined.a, fixture_key(1, 1), 100000, 7);
	cr_expect(fixture_hits(joined.a, fixture_key(1, 1), 100000, 7));
	struct stat st;
	cr_assert(eq(int, fstat(512, &st), 0));
	cr_expect(eq(int, (int)(st.st_mode & S_IFMT), S_IFCHR),
		"the host's descriptor is untouched");
	fixture_detach(joined.a);
	cr_expect(not(fixture_exists("ring")));
	cr_assert(eq(int, fstat(512, &st), 0));
}

static int look_for_death(void *context)
{
	struct ts_store *store = fixture_attach(JOB_B);
	const uint32_t *index = context;

	return ts_member_is_gone(store, *index) ? 1 : 0;
}

Test(attached, lost_lock_is_no_proof_of_death)
{
	uint32_t index = (uint32_t)joined.a->member;

	/* Closing any descriptor of the file drops all locks of this process. */
	close(open(fixture_path("ring"), O_RDONLY));
	cr_expect(eq(int, fixture_fork(look_for_death, &index), 0));
}

static int look_for_lock(void *context)
{
	struct flock lock = {.l_type = F_WRLCK,
		.l_whence = SEEK_SET,
		.l_start = ts_member_lock_byte(*(const uint32_t *)context),
		.l_len = 1};
	int fd = open(fixture_path("ring"), O_RDWR);

	return fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type == F_WRLCK ? 0 : 1;
}

Test(attached, who_asks_for_room_with_a_lost_descriptor_keeps_the_lock)
{
	uint32_t index = (uint32_t)joined.a->member;

	cr_expect(eq(int, fixture_fork(look_for_lock, &index), 0));
	close(joined.a->ring.fd);
	cr_expect(ne(int, fixture_fork(look_for_lock, &index), 0));
	(void)ts_limits_may_grow(joined.a, 1);
	cr_expect(eq(int, fixture_fork(look_for_lock, &index), 0));
}

Test(attached, another_process_with_the_same_pid_is_no_sign_of_life)
{
	struct ts_member *member = &joined.a->members[40];
	uint64_t parent = ts_process_id(getppid(), false);

	ts_write_relaxed(&joined.a->header->member_high, 41);
	ts_write_relaxed(&member->word, ts_member_pack(TS_MEMBER_LIVE, 3, parent));
	cr_expect(not(ts_member_is_gone(joined.a, 40)), "it runs, though it holds no lock");
	ts_write_relaxed(
		&member->word, ts_member_pack(TS_MEMBER_LIVE, 3, parent + (UINT64_C(5) << 24)));
	cr_expect(ts_member_is_gone(joined.a, 40), "started at another time");
	cr_expect(ts_member_clean(joined.a, 40));
	cr_expect(eq(u64, member->word, ts_member_pack(TS_MEMBER_FREE, 4, 0)));
}

/* Who removes a ring when several leave, and the lock is somebody else's just then. */

TestSuite(leave, .init = fixture_alone_init, .fini = fixture_finish, .timeout = 60);

static void *join_to_stop(void *point)
{
	setenv("TSSHIM_TEST_STOP", point, 1);
	return fixture_attach(JOB_B);
}

static int leave(void *store)
{
	fixture_detach(store);
	return 0;
}

/* Another member leaves, and stops on the way; then joined.a does. */
static pid_t leave_while_another_does(void)
{
	struct fixture_child other =
		fixture_child_begin(join_to_stop, leave, (void *)"detach_looked");
	int status = 0;

	close(other.order);
	cr_assert(eq(int, waitpid(other.pid, &status, WUNTRACED), other.pid));
	cr_assert(ne(int, WIFSTOPPED(status), 0));
	fixture_detach(joined.a);
	return other.pid;
}

static void go_on(pid_t leaver)
{
	int status = -1;

	kill(leaver, SIGCONT);
	cr_assert(eq(int, waitpid(leaver, &status, 0), leaver));
	cr_expect(eq(int, status, 0));
}

/* It has seen that we are there, and holds the lock until after we have given up. */
Test(leave, who_holds_the_lock_removes_what_the_last_one_had_to_leave)
{
	pid_t other = leave_while_another_does();

	cr_expect(fixture_exists("ring"), "nobody else can remove it now");
	go_on(other);
	cr_expect(not(fixture_exists("ring")));
	cr_expect(fixture_exists("ledger"));
}

/* As above, but a third one came: the ring is its. */
Test(leave, who_holds_the_lock_leaves_what_is_used)
{
	NOT_EMULATED("a child is told its parent's start time, so who lives is not known");
	struct ts_store *third = fixture_attach(JOB_A);

	go_on(leave_while_another_does());
	cr_expect(fixture_exists("ring"));
	fixture_detach(third);
	cr_expect(not(fixture_exists("ring")));
}

Test(leave, a_kept_ring_stays_whoever_looks)
{
	ts_write_relaxed(&joined.a->header->kept_until_ns, UINT64_MAX);
	go_on(leave_while_another_does());
	cr_expect(fixture_exists("ring"));
}

/* The holder is gone: what it would have removed is the next one's to replace. */
Test(leave, a_holder_that_is_killed_leaves_it_to_the_next)
{
	pid_t other = leave_while_another_does();

	kill(other, SIGKILL);
	cr_assert(eq(int, waitpid(other, NULL, 0), other));
	cr_expect(fixture_exists("ring"));
	fixture_detach(fixture_attach(JOB_A));
	cr_expect(not(fixture_exists("ring")));
}

/*
 * Jobs that follow one another at a distance through the same keys, as aligned jobs in strict
 * order do that were started one after the other.  One step is one key of each.
 */

#define JOBS  4u
#define BYTES UINT64_C(33000)
#define RING  (UINT64_C(34) << 20) /* some 1000 records */
#define STEPS 5000u
#define LAST  200u

TestSuite(apart, .init = fixture_init, .fini = fixture_finish);

struct walk {
	struct ts_store *store;
	uint64_t behind; /* keys */
};

static struct ts_key key_of(uint64_t place)
{
	uint64_t mixed = (place + 1) * UINT64_C(0x9e3779b97f4a7c15);

	return (struct ts_key){.lo = mixed ^ mixed >> 29, .hi = ~mixed};
}

/* Returns whether the job made it. */
static bool step(struct walk *walk, uint64_t place)
{
	struct ts_take take = fixture_take(walk->store, key_of(place));
	void *buffer;

	if (take.verdict == TS_HIT) {
		ts_lease_release(walk->store, &take.lease);
		return false;
	}
	if (take.verdict != TS_CLAIM)
		return true;
	cr_assert(eq(int, ts_claim_reserve(walk->store, &take.claim, BYTES, &buffer), 0));
	cr_assert(eq(int, ts_claim_publish(walk->store, &take.claim, BYTES, 1000), 0));
	return true;
}

/* Follow at distances @behind, and expect so much to be made of each key at the end. */
static void expect_made(unsigned count, const uint64_t *behind, uint64_t expected)
{
	struct walk walks[JOBS];
	uint64_t made = 0, capacity, used;

	for (unsigned i = 0; i < count; i++)
		walks[i] = (struct walk){
			.store = fixture_attach_sized(JOB_A + ((uint64_t)i << 24), RING),
			.behind = behind[i]};
	for (uint64_t at = 0; at < STEPS; at++) {
		for (unsigned i = 0; i < count && at >= behind[i]; i++)
			made += step(&walks[i], at - behind[i]) && at >= STEPS - LAST;
	}
	cr_expect(eq(u64, made, expected * LAST));
	fixture_usage(walks[0].store, &capacity, &used);
	cr_expect(ge(u64, capacity / BYTES, 1000));
	cr_expect(lt(u64, capacity / BYTES, 1050), "the distances are those of 1000 records");
	for (unsigned i = 0; i < count; i++)
		fixture_detach(walks[i].store);
}

/* The fourth comes too late for some keys at first, as the second made some as well. */
Test(apart, who_is_within_reach_makes_nothing)
{
	expect_made(4, (const uint64_t[]){0, 300, 500, 800}, 1);
}

Test(apart, who_is_out_of_reach_costs_the_others_nothing)
{
	expect_made(3, (const uint64_t[]){0, 700, 3000}, 2);
}

Test(apart, who_follows_one_that_was_alone_is_noticed)
{
	expect_made(4, (const uint64_t[]){0, 300, 3000, 3300}, 2);
}
