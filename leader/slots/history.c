/* SPDX-License-Identifier: MIT */
/*
 * What was brought to a GPU, and asked for: which jobs are behind the others.
 *
 * A job that is further behind than a ring has slots finds nothing there.  If what it brings
 * again took as many slots as what is new, those that are less far behind would soon find
 * nothing either, and none of them would get out of that, for then all bring everything.  So
 * what others have brought before, and this process asks for now for the first time (else it is
 * another round, as of validation), gets one slot in TS_DEVICE_AGAIN_PART at most once all are
 * in use: enough for jobs that are behind together.
 *
 * Remembered are traces of keys, one for each place in a table, the newest; a key that has
 * lost its place counts as new.  All of it hints: which slot is written matters to nobody's
 * bytes.
 */
#include "leader/slots/device_private.h"

#include "shim/atomic.h"

static uint64_t trace_of(uint32_t ring, const struct ts_key *key, uint64_t bytes)
{
	return (key->hi ^ bytes) + ring;
}

static _Atomic uint64_t *place_of(_Atomic uint64_t *table, const struct ts_key *key)
{
	return &table[key->lo % TS_DEVICE_HISTORY];
}

bool ts_device_note_asked(
	struct ts_device *device, uint32_t ring, const struct ts_key *key, uint64_t bytes)
{
	_Atomic uint64_t *asked = place_of(device->asked, key);
	uint64_t trace = trace_of(ring, key, bytes);

	if (ts_load_relaxed(asked) == trace)
		return false;
	ts_write_relaxed(asked, trace);
	return true;
}

bool ts_device_was_brought(
	struct ts_device *device, uint32_t ring, const struct ts_key *key, uint64_t bytes)
{
	return ts_load_relaxed(place_of(device->table->brought, key)) ==
	       trace_of(ring, key, bytes);
}

void ts_device_note_brought(
	struct ts_device *device, uint32_t ring, const struct ts_key *key, uint64_t bytes)
{
	ts_write_relaxed(place_of(device->table->brought, key), trace_of(ring, key, bytes));
}
