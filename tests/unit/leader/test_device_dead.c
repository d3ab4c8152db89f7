/* SPDX-License-Identifier: MIT */
/* Copies to a GPU: what the dead leave behind. */
#include "../clock.h"
#include "fixture_device.h"
#include "shim/sys.h"
#include "shim/hash.h"

TestSuite(device_dead, .init = fixture_device_init, .fini = fixture_device_finish);

static void take_one(struct ts_device *device)
{
	(void)fixture_device_take(device, 1);
}

static void offer(struct ts_device *device)
{
	fixture_offer(device, 2);
}

static void publish_one(struct ts_device *device)
{
	fixture_device_publish(device, 1);
}

Test(device_dead, a_reader_costs_nothing)
{
	fixture_offer(gpu.a, 1);
	fixture_device_publish(gpu.a, 1);
	fixture_device_die(NULL, take_one);
	fixture_device_publish(gpu.b, 2);
}

/* The next one in its place of the member table has other words than it left there. */
Test(device_dead, a_readers_place_is_given_away)
{
	fixture_offer(gpu.a, 1);
	fixture_device_publish(gpu.a, 1);
	fixture_device_die(NULL, take_one);
	/* Who attaches cleans up after the dead when it has a place itself. */
	(void)fixture_attach(JOB_B);
	struct ts_store *next = fixture_attach(JOB_B);
	cr_assert(eq(int, next->member, 2), "the place of the dead");
	cr_assert(ne(u64, ts_load_relaxed(&gpu.a->table->lines[2].lease[0]), 0));
	fixture_device_publish(gpu.b, 2);
}

/* Its copy may still be queued in the GPU as long as a child has its device files open. */
Test(device_dead, a_writer_costs_its_slot_until_the_ring_goes)
{
	struct ts_device_owner owner;

	cr_assert(eq(int, ts_device_memory_begin(gpu.a, gpu.ring), 0));
	fixture_offer(gpu.a, 2);
	fixture_device_die(NULL, take_one);
	cr_expect(eq(int, fixture_slot(0), TS_SLOT_WRITING));
	cr_expect(eq(u32, fixture_device_publish(gpu.b, 1), 1), "nobody waits for the dead");
	cr_expect(eq(int, fixture_slot(0), TS_SLOT_LOST));
	cr_expect(eq(u32, fixture_device_publish(gpu.b, 2), 1), "nor writes its slot");
	cr_assert(eq(int, ts_device_owner(gpu.b, gpu.ring, &owner), 0));
	cr_expect(eq(u32, owner.lost, 1));
	cr_expect(ts_device_memory_held(gpu.b, gpu.ring));
	cr_expect(eq(int, fixture_withdraw(gpu.a, 0), 1), "the memory stays");
	cr_expect(not(ts_device_memory_held(gpu.b, gpu.ring)), "but nobody can give it back");
	fixture_offer(gpu.b, 1);
	cr_expect(eq(int, fixture_withdraw(gpu.a, 0), 1), "for good");
	fixture_device_publish(gpu.a, 1);
	cr_expect(eq(int, fixture_withdraw(gpu.b, 0), 0), "and that is all");
}

static void have_memory(struct ts_device *device)
{
	cr_assert(eq(int, ts_device_memory_begin(device, gpu.ring), 0));
}

Test(device_dead, memory_goes_with_its_owner)
{
	fixture_device_die(NULL, have_memory);
	cr_expect(ne(u64, ts_load_relaxed(&gpu.a->table->rows[gpu.ring].memory), 0));
	cr_expect(not(ts_device_memory_held(gpu.a, gpu.ring)));
	cr_expect(eq(int, ts_device_memory_begin(gpu.a, gpu.ring), 0));
}

static void map_it(struct ts_device *device)
{
	uint32_t generation = 0;
	(void)ts_device_is_offered(device, gpu.ring, &generation);
	cr_assert(ge(int, ts_device_map_begin(device, gpu.ring, generation), 0));
}

Test(device_dead, memory_is_not_kept_for_the_dead)
{
	static const char *const points[] = {"device_announced", NULL};
	uint32_t generation = fixture_offer(gpu.a, 1);

	for (size_t i = 0; i < TS_ARRAY_SIZE(points); i++) {
		fixture_device_die(points[i], map_it);
		cr_expect(ne(u64, ts_load_relaxed(&gpu.a->table->maps[2].map[0]), 0), "%zu", i);
		cr_expect(not(ts_device_is_mapped(gpu.a, gpu.ring, generation)), "%zu", i);
	}
	/* Who has the dead one's place next has not mapped what that one had. */
	struct ts_device *next = fixture_device_join(JOB_B);
	cr_expect(eq(u32, next->member, 2), "the place of the dead");
	cr_expect(eq(u64, ts_load_relaxed(&gpu.a->table->maps[2].map[0]), 0));
	cr_expect(not(ts_device_is_mapped(gpu.a, gpu.ring, generation)));
}

Test(device_dead, who_waits_for_the_dead_is_told)
{
	fixture_offer(gpu.a, 2);
	fixture_device_die(NULL, take_one);
	struct ts_device_slot *slot = &gpu.a->table->rows[gpu.ring].slots[0];
	struct ts_device_take busy = {.verdict = TS_BUSY,
		.hold = {.ring = gpu.ring, .word = ts_load_acquire(&slot->word)}};

	clock_begin();
	cr_expect(eq(int, ts_device_wait(gpu.b, &busy, UINT64_C(5000000000)), 0));
	cr_expect(eq(u64, clock_passed(), 0), "it is seen before any sleep");
}

Test(device_dead, what_nobody_was_given_is_free_again)
{
	const char *const points[] = {"device_taken", "device_keyed"};

	fixture_offer(gpu.a, 1);
	for (size_t i = 0; i < TS_ARRAY_SIZE(points); i++) {
		fixture_device_die(points[i], take_one);
		cr_expect(eq(int, fixture_slot(0), TS_SLOT_TAKEN));
		fixture_device_publish(gpu.b, 2 + i);
	}
}

/* FREE by such a recovery, and read all the same: the next taker has to look. */
Test(device_dead, a_slot_that_the_dead_had_taken_may_be_read)
{
	fixture_offer(gpu.a, 1);
	fixture_device_publish(gpu.a, 2);
	struct ts_device_take reader = fixture_device_take(gpu.b, 2);
	cr_assert(eq(int, reader.verdict, TS_HIT));
	fixture_device_die("device_taken", take_one);
	struct ts_device_take got = fixture_device_take(gpu.a, 3);
	cr_expect(eq(int, got.error, -ENOBUFS));
	ts_device_release(gpu.b, &reader.hold);
	fixture_device_publish(gpu.a, 3);
}

Test(device_dead, an_owner_takes_its_ring_along)
{
	static const char *const points[] = {
		"device_making", "device_renewed", "device_live", NULL};
	struct ts_device_owner owner;
	uint32_t generation = 0;

	for (size_t i = 0; i < TS_ARRAY_SIZE(points); i++) {
		fixture_device_die(points[i], offer);
		struct ts_device_take got = fixture_device_take(gpu.b, 1);
		cr_expect(eq(int, got.error, -ENODEV), "%zu", i);
		cr_expect(eq(int, ts_device_owner(gpu.b, gpu.ring, &owner), -ENODEV));
		uint32_t next = fixture_offer(gpu.b, 2);
		cr_expect(gt(u32, next, generation));
		generation = next;
		cr_assert(eq(int, fixture_withdraw(gpu.b, 0), 0));
	}
}

/* Nobody has looked whether the owner lives: take() finds what was seen before. */
static void owner_dies_unseen(void)
{
	fixture_device_die(NULL, offer);
	uint64_t word = ts_load_acquire(&gpu.a->table->rows[gpu.ring].word);
	ts_write_relaxed(&gpu.a->alive_until[ts_device_ring_owner(word)], UINT64_MAX);
}

/* What belongs to an older generation cannot touch a slot of this one. */
Test(device_dead, a_claim_ends_with_its_ring)
{
	owner_dies_unseen();
	struct ts_device_take old = fixture_device_take(gpu.a, 1);
	cr_assert(eq(int, old.verdict, TS_CLAIM));
	fixture_offer(gpu.b, 2);
	cr_expect(eq(int, ts_device_publish(gpu.a, &old.hold), -ESTALE));
	cr_expect(eq(int, fixture_slot(old.hold.slot), TS_SLOT_FREE));
	fixture_device_publish(gpu.b, 1);
	ts_device_abandon(gpu.a, &old.hold);
	fixture_device_hit(gpu.b, 1);
}

/* A lease of an older ring is one on other memory. */
Test(device_dead, a_lease_does_not_hold_the_next_rings_slot)
{
	owner_dies_unseen();
	fixture_device_publish(gpu.a, 1);
	struct ts_device_take old = fixture_device_take(gpu.a, 1);
	cr_assert(eq(int, old.verdict, TS_HIT));
	fixture_offer(gpu.b, 1);
	fixture_device_publish(gpu.b, 2);
	fixture_device_publish(gpu.b, 3);
	cr_expect(eq(int, fixture_withdraw(gpu.b, 0), 0));
	ts_device_release(gpu.a, &old.hold);
}

Test(device_dead, a_withdrawal_that_was_begun_is_ended_by_others)
{
	struct ts_device_owner owner;

	fixture_device_die(NULL, offer);
	_Atomic uint64_t *word = &gpu.a->table->rows[gpu.ring].word;
	uint64_t live = ts_load_acquire(word);
	ts_write_release(word, live | TS_RING_CLOSING);
	cr_expect(eq(int, ts_device_owner(gpu.b, gpu.ring, &owner), -ENODEV));
	fixture_offer(gpu.b, 1);
}

Test(device_dead, what_it_published_stays)
{
	fixture_offer(gpu.a, 1);
	fixture_device_die(NULL, publish_one);
	fixture_device_hit(gpu.b, 1);
}

/* Copies to a GPU: tables that are damaged, foreign, old, or somebody else's. */

TestSuite(device_damage, .init = fixture_device_init, .fini = fixture_device_finish);

/* Write @change of @bytes at @at into the table, mend its check if asked to, attach to it. */
static int attach_to_changed(size_t at, const void *change, size_t bytes, bool mend)
{
	struct ts_dependent_head head;
	struct ts_device *device;
	int fd = open(fixture_path("device"), O_RDWR);

	cr_assert(eq(int, (int)pread(fd, &head, sizeof(head), 0), (int)sizeof(head)));
	struct ts_dependent_head changed = head;
	memcpy((char *)&changed + at, change, bytes);
	if (mend)
		changed.check = ts_hash64(&changed, offsetof(struct ts_dependent_head, check));
	cr_assert(eq(int, (int)pwrite(fd, &changed, sizeof(changed), 0), (int)sizeof(head)));
	int r = ts_device_attach(fixture_attach(JOB_B), &device);
	cr_assert(eq(int, (int)pwrite(fd, &head, sizeof(head), 0), (int)sizeof(head)));
	close(fd);
	return r;
}

#define CHANGED(field, value, mend)                                                      \
	attach_to_changed(offsetof(struct ts_dependent_head, field), &(uint64_t){value}, \
		sizeof(((struct ts_dependent_head *)0)->field) < 8                       \
			? sizeof(((struct ts_dependent_head *)0)->field)                 \
			: 8,                                                             \
		mend)

Test(device_damage, what_is_not_ours_is_refused)
{
	cr_expect(eq(int, CHANGED(head.magic, 1, true), -EBADMSG));
	cr_expect(eq(int, CHANGED(head.abi, TS_DEVICE_ABI - 1, true), -EPROTO));
	cr_expect(eq(int, CHANGED(total_bytes, 4096, true), -EBADMSG));
	cr_expect(eq(int, CHANGED(head.uid, 12345, true), -EPERM));
	cr_expect(eq(int, CHANGED(head.boot_id, 12345, true), -EXDEV));
	cr_expect(eq(int, CHANGED(head.pid_ns, 12345, true), -EXDEV));
	cr_expect(eq(int, CHANGED(head.user_ns, 12345, true), -EXDEV));
	cr_expect(eq(int, CHANGED(head.user_ns, 12345, false), -EBADMSG), "its check is wrong");
	cr_expect(eq(int, CHANGED(head.magic, gpu.a->table->head.head.magic, true), 0));
}

Test(device_damage, what_others_may_write_is_refused)
{
	struct ts_device *device;
	const char *path = fixture_path("device");

	cr_assert(eq(int, chmod(path, 0620), 0));
	cr_expect(eq(int, ts_device_attach(fixture_attach(JOB_B), &device), -EPERM));
	cr_assert(eq(int, unlink(path), 0));
	cr_assert(eq(int, symlink("/dev/null", path), 0));
	cr_expect(eq(int, ts_device_attach(fixture_attach(JOB_B), &device), -EPERM));
	cr_assert(eq(int, unlink(path), 0));
	cr_assert(eq(int, mkfifo(path, 0600), 0));
	cr_expect(eq(int, ts_device_attach(fixture_attach(JOB_B), &device), -EPERM));
	cr_assert(eq(int, unlink(path), 0));
	struct ts_store *mapped = fixture_attach(JOB_B);
	cr_expect(eq(int, ts_device_attach(mapped, &device), 0));
	fixture_forget(mapped); /* what it has mapped is cut off now */
	int fd = open(path, O_RDWR);
	cr_assert(eq(int, ftruncate(fd, 4096), 0));
	close(fd);
	cr_expect(eq(int, ts_device_attach(fixture_attach(JOB_B), &device), -EBADMSG));
}

/* Members of another ring have other numbers: nobody may mix the two. */
Test(device_damage, another_rings_table_is_replaced)
{
	struct stat before, after;
	const char *path = fixture_path("device");

	cr_assert(eq(int, stat(path, &before), 0));
	cr_expect(eq(int, CHANGED(ring_inode, 12345, true), 0));
	cr_assert(eq(int, stat(path, &after), 0));
	cr_expect(ne(u64, before.st_ino, after.st_ino));
}

Test(device_damage, who_has_an_old_ring_does_not_replace_the_new_ones_table)
{
	struct ts_device *device;
	struct ts_store *old = fixture_attach(JOB_B);

	cr_assert(eq(int, unlink(fixture_path("ring")), 0));
	cr_expect(eq(int, ts_device_attach(old, &device), -ESTALE));
	struct ts_store *new = fixture_attach(JOB_B);
	cr_assert(eq(int, ts_device_attach(new, &device), 0));
	cr_expect(eq(int, ts_device_attach(old, &device), -ESTALE));
}

Test(device_damage, sizes_that_cannot_be_are_not_used)
{
	struct ts_device_row *row = &gpu.a->table->rows[gpu.ring];
	struct ts_device_owner owner;

	fixture_offer(gpu.a, 2);
	const uint64_t wrong[][2] = {{0, SLOT_BYTES}, {TS_DEVICE_SLOTS + 1, SLOT_BYTES},
		{UINT64_MAX, SLOT_BYTES}, {2, UINT64_MAX / 2}, {2, 0}};
	for (size_t i = 0; i < TS_ARRAY_SIZE(wrong); i++) {
		ts_write_relaxed(&row->slot_count, wrong[i][0]);
		ts_write_relaxed(&row->slot_bytes, wrong[i][1]);
		struct ts_device_take got = fixture_device_take(gpu.b, 1);
		cr_expect(eq(int, got.error, -EBADMSG), "%zu", i);
		cr_expect(
			eq(int, ts_device_owner(gpu.b, gpu.ring, &owner), -EBADMSG), "%zu", i);
	}
}

static uint64_t random_word(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	/* Half of them small, so that states, members and slots are met. */
	return *state % 2 ? *state : *state >> 50;
}

/* Whatever stands in a row: every answer is one of those there are, and leads into the ring. */
Test(device_damage, a_row_of_nonsense_leads_nowhere)
{
	struct ts_device_row *row = &gpu.a->table->rows[gpu.ring];
	struct ts_device_owner owner;
	uint64_t state = 88172645463325252, verdicts[4] = {0};

	fixture_offer(gpu.a, 4);
	uint64_t live = ts_load_relaxed(&row->word);
	for (uint32_t i = 0; i < 4000; i++) {
		for (uint32_t j = 0; j < 4; j++) {
			uint64_t *words = (uint64_t *)&row->slots[j];
			for (uint32_t k = 0; k < 6; k++)
				words[k] = random_word(&state);
			words[1] = i % 3;
			words[2] = ~words[1];
			words[3] = 10 + words[1];
		}
		gpu.a->table->lines[i % 8].lease[i % TS_DEVICE_HOLDS] = random_word(&state);
		ts_write_relaxed(&row->word, i % 16 == 0 ? random_word(&state) : live);
		struct ts_device_take got = fixture_device_take(gpu.b, 1);
		verdicts[got.verdict]++;
		if (got.verdict != TS_PASS) {
			cr_assert(lt(u32, got.hold.slot, 4));
			cr_assert(eq(u64, got.hold.offset, got.hold.slot * SLOT_BYTES));
			cr_assert(eq(u64, got.hold.bytes, 11));
		}
		(void)ts_device_owner(gpu.b, gpu.ring, &owner);
		(void)fixture_withdraw(gpu.b, 0);
		if (got.verdict == TS_HIT)
			ts_device_release(gpu.b, &got.hold);
		if (got.verdict == TS_CLAIM)
			ts_device_abandon(gpu.b, &got.hold);
		if (got.verdict == TS_BUSY)
			(void)ts_device_wait(gpu.b, &got, 0);
	}
	for (uint32_t i = 0; i < 4; i++)
		cr_expect(gt(u64, verdicts[i], 0), "verdict %u", i);
	ts_write_relaxed(&row->word, 0);
	fixture_offer(gpu.a, 4);
	memset(gpu.a->table->lines, 0, sizeof(gpu.a->table->lines));
	fixture_device_publish(gpu.a, 1);
	fixture_device_hit(gpu.b, 1);
}

/* Copies to a GPU: who is stopped between two steps costs what it holds, and harms nobody. */

TestSuite(device_stopped, .init = fixture_device_init, .fini = fixture_device_finish);

/* What the woken one was given: its verdict, or 10 - the error of TS_PASS. */
static int take_and_say(struct ts_device *device)
{
	struct ts_device_take got = fixture_device_take(device, 1);

	if (got.verdict == TS_HIT)
		ts_device_release(device, &got.hold);
	return got.verdict == TS_PASS ? 10 - got.error : (int)got.verdict;
}

static int publish_and_say(struct ts_device *device)
{
	struct ts_device_take got = fixture_device_take(device, 1);

	return got.verdict == TS_CLAIM ? -ts_device_publish(device, &got.hold) : 200;
}

static void withdraw(void)
{
	cr_expect(eq(int, fixture_withdraw(gpu.a, 0), 0));
}

static void withdraw_and_offer(void)
{
	withdraw();
	fixture_offer(gpu.a, 1);
	fixture_device_publish(gpu.a, 1);
}

static void withdraw_in_vain(void)
{
	cr_expect(eq(int, fixture_withdraw(gpu.a, 1000000), 1));
}

static void write_another(void)
{
	fixture_device_publish(gpu.a, 2);
}

static void write_another_in_vain(void)
{
	cr_expect(eq(int, fixture_device_take(gpu.a, 2).error, -ENOBUFS));
	cr_expect(eq(int, fixture_device_hurry(gpu.a, 2).error, -ENOBUFS));
}

static void find_it_busy(void)
{
	struct ts_device_take got = fixture_device_take(gpu.a, 1);

	cr_expect(eq(int, got.verdict, TS_BUSY));
	cr_expect(eq(int, ts_device_wait(gpu.a, &got, 20000000), -ETIMEDOUT));
	write_another_in_vain();
}

/* It has seen what there was to read, but said to nobody that it would read it. */
Test(device_stopped, a_reader_that_comes_late_reads_nothing)
{
	fixture_offer(gpu.a, 1);
	fixture_device_publish(gpu.a, 1);
	fixture_device_stop("device_looked", take_and_say, withdraw, 10 + ESTALE);
	fixture_offer(gpu.a, 1);
	fixture_device_publish(gpu.a, 1);
	fixture_device_stop("device_looked", take_and_say, withdraw_and_offer, 10 + ESTALE);
	fixture_device_stop("device_looked", take_and_say, write_another, TS_CLAIM);
}

Test(device_stopped, a_reader_that_was_first_keeps_its_slot)
{
	fixture_offer(gpu.a, 1);
	fixture_device_publish(gpu.a, 1);
	fixture_device_stop("device_pinned", take_and_say, write_another_in_vain, TS_HIT);
	fixture_device_stop("device_checked", take_and_say, write_another_in_vain, TS_HIT);
	fixture_device_stop("device_checked", take_and_say, withdraw_in_vain, TS_HIT);
	withdraw();
}

Test(device_stopped, a_writer_that_comes_late_writes_nothing)
{
	fixture_offer(gpu.a, 1);
	fixture_device_stop("device_looked", take_and_say, withdraw, 10 + ESTALE);
	fixture_offer(gpu.a, 1);
	fixture_device_stop("device_looked", take_and_say, withdraw_and_offer, 10 + ESTALE);
	fixture_device_hit(gpu.a, 1);
}

Test(device_stopped, a_writer_that_was_first_keeps_its_slot)
{
	const char *const points[] = {
		"device_taken", "device_keyed", "device_writing", "device_written"};

	fixture_offer(gpu.a, 1);
	for (size_t i = 0; i < TS_ARRAY_SIZE(points); i++) {
		fixture_device_stop(points[i], publish_and_say,
			i < 2 ? write_another_in_vain : find_it_busy, 0);
		fixture_device_hit(gpu.a, 1);
		write_another();
	}
}

static uint32_t withdrawn;

static int map_and_say(struct ts_device *device)
{
	uint32_t generation = 0;
	(void)ts_device_is_offered(device, gpu.ring, &generation);
	int map = ts_device_map_begin(device, gpu.ring, generation);
	if (map >= 0)
		ts_device_map_end(device, (uint32_t)map);
	return map < 0 ? -map : 0;
}

static void withdraw_and_look(void)
{
	(void)ts_device_is_offered(gpu.a, gpu.ring, &withdrawn);
	withdraw();
	cr_expect(ts_device_is_mapped(gpu.a, gpu.ring, withdrawn));
}

/* Between saying that it maps a ring and looking at it: it does not, or the memory stays. */
Test(device_stopped, who_maps_a_ring_comes_late_or_keeps_it)
{
	fixture_offer(gpu.a, 1);
	fixture_device_stop("device_announced", map_and_say, withdraw_and_look, ESTALE);
	cr_expect(not(ts_device_is_mapped(gpu.a, gpu.ring, withdrawn)));
	fixture_offer(gpu.a, 1);
	fixture_device_stop("device_unmapped", map_and_say, withdraw, 0);
}

/* In the middle of giving up a ring that nobody uses. */
static int offer_and_withdraw(struct ts_device *device)
{
	fixture_offer(device, 1);
	return ts_device_withdraw(device, gpu.ring, 0) == 0 ? 0 : 1;
}

static void nobody_offers(void)
{
	struct ts_device_owner owner = {.slot_count = 0};

	cr_expect(eq(int, ts_device_owner(gpu.a, gpu.ring, &owner), -EBUSY));
	cr_expect(eq(int, ts_device_offer(gpu.a, gpu.ring, owner.handle, 1, 1), -EEXIST));
	cr_expect(eq(int, fixture_device_take(gpu.a, 1).error, -ENODEV));
}

static void others_use_it(void)
{
	fixture_device_publish(gpu.a, 1);
	fixture_device_hit(gpu.b, 1);
}

Test(device_stopped, an_owner_is_not_replaced_while_it_lives)
{
	const char *const points[] = {"device_making", "device_renewed", "device_closing"};

	for (size_t i = 0; i < TS_ARRAY_SIZE(points); i++)
		fixture_device_stop(points[i], offer_and_withdraw, nobody_offers, 0);
	/* A stopped owner is no obstacle. */
	fixture_device_stop("device_live", offer_and_withdraw, others_use_it, 0);
}
