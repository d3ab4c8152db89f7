/* SPDX-License-Identifier: MIT */
/* The journal of a ring: one object, one counter, notes that certify themselves. */
#include "leader/journal/journal.h"

#include "leader/group/attach.h"
#include "leader/group/store_private.h"
#include "leader/journal/journal_private.h"
#include "shim/hash.h"
#include "shim/identity.h"
#include "shim/sys.h"

#include <sys/mman.h>

#define MAGIC UINT64_C(0x6c616e72756f6a74) /* "tjournal", little endian */

uint32_t ts_journal_entries(uint64_t ring_bytes)
{
	uint32_t entries = TS_JOURNAL_MIN;

	while (entries < TS_JOURNAL_MAX && entries < ring_bytes / TS_JOURNAL_PER_ENTRY)
		entries *= 2;
	return entries;
}

static uint64_t bytes_of(uint32_t entries)
{
	return sizeof(struct ts_journal_table) +
	       (uint64_t)entries * sizeof(struct ts_journal_entry);
}

int ts_journal_attach(struct ts_store *store, struct ts_journal **ret_journal)
{
	struct ts_journal *journal = ts_load_acquire(&store->journal);
	void *start;

	if (store->member < 0)
		return -EINVAL;
	if (journal && journal->serial == ts_identity_serial()) {
		*ret_journal = journal;
		return 0;
	}
	uint32_t entries = ts_journal_entries(store->shape.total_bytes);
	/* A parent's mapping is its child's as well. */
	struct ts_journal_table *table = journal ? journal->table : NULL;
	if (!table) {
		int r = ts_dependent_map(store,
			&(struct ts_dependent_kind){.which = TS_DEPENDENT_JOURNAL,
				.abi = TS_JOURNAL_ABI,
				.magic = MAGIC,
				.bytes = bytes_of(entries)},
			&start);
		if (r < 0)
			return r;
		table = start;
	}
	/* Not from malloc: the host may be inside its own allocator's hooks. */
	journal = mmap(NULL, sizeof(*journal), PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (journal == MAP_FAILED)
		return -ENOMEM;
	*journal = (struct ts_journal){.table = table,
		.entries = entries,
		.serial = ts_identity_serial(),
		.job = (uint32_t)ts_hash64(&store->job, sizeof(store->job))};
	ts_write_release(&store->journal, journal); /* pairs with the load above: complete */
	*ret_journal = journal;
	return 0;
}

/* Never 0, which is what a new place has. */
static uint64_t check_of(uint64_t turn, uint64_t tag, uint64_t which, uint64_t made)
{
	const uint64_t words[4] = {turn, tag, which, made};

	return ts_hash64(words, sizeof(words)) | 1;
}

static struct ts_journal_entry *place_of(const struct ts_journal *journal, uint64_t turn)
{
	return &journal->table->entry[turn & (journal->entries - 1)];
}

void ts_journal_write(struct ts_journal *journal, const struct ts_note_made *note)
{
	if (journal->serial != ts_identity_serial())
		return;
	uint64_t turn = ts_add_relaxed(&journal->table->next, 1);
	uint64_t which = (uint64_t)journal->job << 32 | note->index;
	uint64_t made = (uint64_t)note->epoch << 32 | note->draw;
	struct ts_journal_entry *entry = place_of(journal, turn);
	TS_KILLPOINT(journal_turn);
	ts_write_relaxed(&entry->tag, note->tag); /* J1 */
	TS_KILLPOINT(journal_tag);
	ts_write_relaxed(&entry->which, which);
	ts_write_relaxed(&entry->made, made);
	TS_KILLPOINT(journal_made);
	ts_write_relaxed(&entry->check, check_of(turn, note->tag, which, made));
}

uint64_t ts_journal_end(const struct ts_journal *journal)
{
	return ts_load_relaxed(&journal->table->next);
}

uint64_t ts_journal_begin(const struct ts_journal *journal, uint64_t end)
{
	return end - ts_min_u64(end, journal->entries);
}

bool ts_journal_read(
	const struct ts_journal *journal, uint64_t turn, struct ts_note_made *ret_note)
{
	struct ts_journal_entry *entry = place_of(journal, turn);
	uint64_t tag = ts_load_relaxed(&entry->tag), which = ts_load_relaxed(&entry->which);
	uint64_t made = ts_load_relaxed(&entry->made);

	if (ts_load_relaxed(&entry->check) != check_of(turn, tag, which, made))
		return false;
	*ret_note = (struct ts_note_made){.tag = tag,
		.index = (uint32_t)which,
		.draw = (uint32_t)made,
		.epoch = (uint32_t)(made >> 32),
		.mine = (uint32_t)(which >> 32) == journal->job};
	return true;
}
