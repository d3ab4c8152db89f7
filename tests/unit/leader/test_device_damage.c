/* SPDX-License-Identifier: MIT */
/* Copies to a GPU: tables that are damaged, foreign, old, or somebody else's. */
#include "fixture_device.h"

#include "shim/hash.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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
	cr_expect(eq(int, ts_device_attach(fixture_attach(JOB_B), &device), 0));
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
