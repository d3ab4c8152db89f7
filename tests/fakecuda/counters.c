/* SPDX-License-Identifier: MIT */
/* Counting over processes; see counters.h. */
#include "counters.h"

#include "fake_settings.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct entry {
	char name[56];
	_Atomic uint64_t value;
};

#define ENTRIES (FAKE_COUNTER_COUNT + FAKE_CALL_COUNT)

static const char *const counter_names[] = {
#define X(id, name) #name,
	FAKE_COUNTERS(X)
#undef X
};

static const char *const call_names[] = {
#define X(symbol, ...) #symbol,
	FAKE_PLAIN(X) FAKE_PTDS(X) FAKE_PTSZ(X)
#undef X
#define X(symbol, ...) #symbol "_ptds",
		FAKE_PTDS(X)
#undef X
#define X(symbol, ...) #symbol "_ptsz",
			FAKE_PTSZ(X)
#undef X
};

static struct entry private_entries[ENTRIES];
static struct entry *entries = private_entries;
static _Atomic uint64_t own_calls[FAKE_CALL_COUNT];

static void expand(const char *text, char *path, size_t size)
{
	const char *mark = strstr(text, "%p");
	int length = mark ? snprintf(path, size, "%.*s%d%s", (int)(mark - text), text,
				    (int)getpid(), mark + 2)
			  : snprintf(path, size, "%s", text);
	if (length < 0 || (size_t)length >= size)
		fake_die("FAKECUDA_COUNTERS is too long");
}

void fake_counters_init(void)
{
	char path[4096];
	const char *text = getenv("FAKECUDA_COUNTERS");
	if (!text || *text == '\0')
		return;
	expand(text, path, sizeof(path));
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, sizeof(private_entries)) != 0)
		fake_die("cannot make the file of counters %s: %m", path);
	void *map =
		mmap(NULL, sizeof(private_entries), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		fake_die("cannot map the file of counters %s: %m", path);
	close(fd);
	entries = map;
	/* All processes write the same names. */
	for (int i = 0; i < ENTRIES; i++) {
		if (i < FAKE_COUNTER_COUNT)
			snprintf(entries[i].name, sizeof(entries[i].name), "%s",
				counter_names[i]);
		else
			snprintf(entries[i].name, sizeof(entries[i].name), "call.%s",
				call_names[i - FAKE_COUNTER_COUNT]);
	}
}

void fake_count(enum fake_counter id, uint64_t by)
{
	atomic_fetch_add_explicit(&entries[id].value, by, memory_order_relaxed);
}

uint64_t fake_counted(enum fake_counter id)
{
	return atomic_load_explicit(&entries[id].value, memory_order_relaxed);
}

uint64_t fake_reserve(enum fake_counter id, uint64_t now, uint64_t by)
{
	uint64_t end = fake_counted(id), mine;
	do
		mine = (end > now ? end : now) + by;
	while (!atomic_compare_exchange_weak(&entries[id].value, &end, mine));
	return mine;
}

uint64_t fake_count_call(enum fake_call id)
{
	atomic_fetch_add_explicit(
		&entries[FAKE_COUNTER_COUNT + id].value, 1, memory_order_relaxed);
	return 1 + atomic_fetch_add_explicit(&own_calls[id], 1, memory_order_relaxed);
}

const char *fake_call_name(enum fake_call id)
{
	return call_names[id];
}
