/* SPDX-License-Identifier: MIT */
/* Which libjpeg a caller means, and its functions. */
#include "hooks/jpeg/library.h"

#include "shim/atomic.h"
#include "shim/elf.h"

#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

extern char **environ;

/* What every libjpeg defines. */
#define CREATE "jpeg_CreateDecompress"

/* A process that loads and unloads libjpeg over and over reuses the entries that are gone. */
#define LIBRARY_MAX 64u

enum entry_state { ENTRY_FREE, ENTRY_READY, ENTRY_GONE };

/* An entry is filled in under the loader's lock.  One whose library was unloaded may be used
 * again: an object made by a library that is gone cannot be called any more. */
static struct {
	struct ts_jpeg_library library;
	_Atomic int state;
} libraries[LIBRARY_MAX];

/*
 * Call site -> library: return address in the low 48 bits, index + 1 above.  One word, so a
 * race can only make an entry disappear.  Emptied when the loader has unloaded anything.
 */
#define SITE_COUNT 256u
#define SITE_MASK  ((UINT64_C(1) << 48) - 1)
static _Atomic uint64_t sites[SITE_COUNT];
static _Atomic unsigned long long unloads_seen;

static uint32_t site_index(uintptr_t address)
{
	return (uint32_t)((address * UINT64_C(0x9e3779b97f4a7c15)) >> 56) % SITE_COUNT;
}

/*
 * What decides about pixels in the loaded @object, the same on all nodes: its code, and which
 * paths through it this processor takes, as variants for SIMD may differ in bits.  Some 100 us
 * where it has no build id.
 */
static struct ts_hash128 identity_of(const struct ts_elf_object *object)
{
	struct {
		struct ts_hash128 code;
		unsigned long features[6];
	} all = {.code = ts_elf_identity(object)};
#if defined(__x86_64__)
	unsigned a, b, c, d;
	if (__get_cpuid(1, &a, &b, &c, &d)) {
		all.features[0] = c & ~(1u << 27); /* OSXSAVE: the system's, in leaf 7 anyway */
		all.features[1] = d;
	}
	if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
		all.features[2] = b;
		all.features[3] = c & ~(1u << 4); /* OSPKE */
	}
#elif defined(__aarch64__)
	all.features[0] = getauxval(AT_HWCAP);
	all.features[1] = getauxval(AT_HWCAP2);
#endif
	return ts_hash128(&all, sizeof(all));
}

uint64_t ts_jpeg_environment(void)
{
	/* libjpeg-turbo reads these for every object it makes (simd/.../jsimd.c, init_simd). */
	uint64_t hash = 0;
	for (char **e = environ; e && *e; e++)
		if ((*e)[0] == 'J' && strncmp(*e, "JSIMD_", 6) == 0)
			hash = hash * 31 + ts_hash64(*e, strlen(*e));
	return hash;
}

static const struct ts_jpeg_library *library_at(uintptr_t address)
{
	for (unsigned i = 0; i < LIBRARY_MAX; i++) {
		int state = ts_load_acquire(&libraries[i].state);
		if (state == ENTRY_FREE)
			break;
		const struct ts_jpeg_library *library = &libraries[i].library;
		if (state == ENTRY_READY &&
			address - library->low < library->high - library->low)
			return library;
	}
	return NULL;
}

static void fill_in(struct ts_jpeg_library *library, const struct ts_elf_object *object)
{
	ts_elf_code(object, &library->low, &library->high);
	library->identity = identity_of(object);
#define TS_X(name, type, parameters) \
	library->name = (type(*) parameters)ts_elf_function(object, "jpeg_" #name);
	TS_JPEG_CALLS(TS_X)
	TS_JPEG_USED(TS_X)
#undef TS_X
#define TS_X(name, type, parameters) \
	library->name = (type(*) parameters)ts_elf_function(object, #name);
	TS_TURBO_CALLS(TS_X)
#undef TS_X
}

/* The library that @object is if it defines @function.  Under the loader's lock, so one thread
 * at a time. */
static const struct ts_jpeg_library *library_of_object(
	const struct ts_elf_object *object, const char *function)
{
	uintptr_t any = ts_elf_function(object, function);
	const struct ts_jpeg_library *known = library_at(any);
	if (known || !any)
		return known;
	for (unsigned i = 0; i < LIBRARY_MAX; i++) {
		if (ts_load_relaxed(&libraries[i].state) == ENTRY_READY)
			continue;
		fill_in(&libraries[i].library, object);
		/* Pairs with the load in library_at(): functions before the state. */
		ts_write_release(&libraries[i].state, ENTRY_READY);
		return &libraries[i].library;
	}
	return NULL;
}

struct search {
	uintptr_t address;
	const char *function;
	const struct ts_jpeg_library *library;
};

static bool defines_after_us(const struct ts_elf_object *object, void *data)
{
	struct search *search = data;
	struct ts_elf_object self;
	if (!ts_elf_containing((uintptr_t)&library_at, &self) ||
		self.dynamic == object->dynamic)
		return false;
	search->library = library_of_object(object, search->function);
	return search->library != NULL;
}

/* A caller without the library among its needs got it from the global scope. */
static void search_caller(void *data)
{
	struct search *search = data;
	struct ts_elf_object caller, provider;
	if (ts_elf_containing(search->address, &caller) &&
		ts_elf_provider(&caller, search->function, (uintptr_t)&library_at, &provider))
		search->library = library_of_object(&provider, search->function);
	if (!search->library)
		ts_elf_each(defines_after_us, search);
}

static void search_provider(void *data)
{
	struct search *search = data;
	struct ts_elf_object object;
	if (ts_elf_containing(search->address, &object))
		search->library = library_of_object(&object, search->function);
}

/* Something was unloaded: forget call sites, and libraries that are no longer there. */
static void revalidate(void *data)
{
	(void)data;
	for (unsigned i = 0; i < LIBRARY_MAX; i++) {
		struct ts_elf_object object;
		struct ts_jpeg_library *library = &libraries[i].library;
		if (ts_load_relaxed(&libraries[i].state) != ENTRY_READY)
			continue;
		struct ts_hash128 identity = {0, 0};
		uintptr_t low = 0, high = 0;
		if (ts_elf_containing(library->low, &object))
			ts_elf_code(&object, &low, &high);
		if (low == library->low && high == library->high)
			identity = identity_of(&object);
		if (memcmp(&identity, &library->identity, sizeof(identity)) != 0)
			ts_write_release(&libraries[i].state, ENTRY_GONE);
	}
	for (unsigned i = 0; i < SITE_COUNT; i++)
		ts_write_relaxed(&sites[i], 0);
}

static void forget_what_is_gone(void)
{
	unsigned long long unloads = ts_elf_unloads();
	/* Acquire: pairs with the release below.  Who goes by another thread's look has to see
	 * what that has forgotten, or it would call what is no longer there. */
	if (TS_LIKELY(unloads == ts_load_acquire(&unloads_seen)))
		return;
	ts_elf_locked(revalidate, NULL);
	ts_write_release(&unloads_seen, unloads);
}

/* After forget_what_is_gone(), which need not look twice for one call. */
static const struct ts_jpeg_library *library_of_site(uintptr_t address, const char *function)
{
	uint64_t site = ts_load_acquire(&sites[site_index(address)]);
	if ((site & SITE_MASK) == (address & SITE_MASK) && site >> 48)
		return &libraries[(site >> 48) - 1].library;

	struct search search = {.address = address, .function = function};
	ts_elf_locked(search_caller, &search);
	if (search.library) {
		uint64_t index = 0;
		while (&libraries[index].library != search.library)
			index++;
		/* Pairs with the load above: the library was filled in before. */
		ts_write_release(
			&sites[site_index(address)], (index + 1) << 48 | (address & SITE_MASK));
	}
	return search.library;
}

const struct ts_jpeg_library *ts_jpeg_library_of_caller(
	const void *caller, const char *function)
{
	forget_what_is_gone();
	return library_of_site((uintptr_t)caller, function);
}

const struct ts_jpeg_library *ts_jpeg_library_of(
	const struct ts_jpeg_common *cinfo, const void *caller)
{
	const struct ts_jpeg_memory_mgr *mem = cinfo->mem;
	forget_what_is_gone();
	if (mem) {
		const struct ts_jpeg_library *known = library_at((uintptr_t)mem->alloc_small);
		if (TS_LIKELY(known != NULL))
			return known;
		struct search search = {
			.address = (uintptr_t)mem->alloc_small, .function = CREATE};
		ts_elf_locked(search_provider, &search);
		if (search.library)
			return search.library;
	}
	return library_of_site((uintptr_t)caller, CREATE);
}
