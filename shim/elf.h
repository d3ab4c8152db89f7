/* SPDX-License-Identifier: MIT */
/* Loaded ELF objects, read in place: just enough to follow DT_NEEDED and find a function. */
#ifndef TS_SHIM_ELF_H
#define TS_SHIM_ELF_H

#include "shim/base.h"
#include "shim/hash.h"

#include <elf.h>
#include <link.h>

/** One loaded object; valid while the loader's lock is held (see ts_elf_locked()). */
struct ts_elf_object {
	ElfW(Addr) base;
	const ElfW(Phdr) * phdr;
	unsigned phdr_count;
	const char *path; /* empty for the main program */
	const ElfW(Dyn) * dynamic;
	const char *strings;
	const ElfW(Sym) * symbols;
	const uint32_t *gnu_hash;
	const uint32_t *hash; /* DT_HASH, where there is no DT_GNU_HASH */
	const char *soname;   /* or NULL */
};

/**
 * Run @work(@data) with the list of loaded objects held still (the loader's lock is
 * recursive, so @work may call ts_elf_each() and ts_elf_containing()).
 */
void ts_elf_locked(void (*work)(void *data), void *data);

/** Numbers of objects that the loader has added and removed so far. */
void ts_elf_counts(unsigned long long *ret_loads, unsigned long long *ret_unloads);

/** Number of objects the loader has removed so far: when it changes, addresses may lie. */
unsigned long long ts_elf_unloads(void);

/** Call @visit for every object in load order until it returns true; returns that. */
bool ts_elf_each(bool (*visit)(const struct ts_elf_object *object, void *data), void *data);

/** The object whose loaded segments contain @address. */
bool ts_elf_containing(uintptr_t address, struct ts_elf_object *ret_object);

/** Address of the function @name defined in @object itself, or 0. Versions are ignored. */
uintptr_t ts_elf_function(const struct ts_elf_object *object, const char *name);

/** Whether @object calls @name, or takes its address, in another object. */
bool ts_elf_refers(const struct ts_elf_object *object, const char *name);

/**
 * The first object that defines function @name, breadth first from @start through
 * DT_NEEDED, never @except (an address inside the object to leave out).
 */
bool ts_elf_provider(const struct ts_elf_object *start, const char *name, uintptr_t except,
	struct ts_elf_object *ret_object);

/**
 * Call @visit for every object behind this library in load order until it returns true;
 * returns that.  If none does, for all others from the first on: not preloaded but loaded
 * later, we stand behind the C library, and then any will do.
 *
 * Threads: any, with the loader's lock held (ts_elf_locked()).
 */
bool ts_elf_each_next(
	bool (*visit)(const struct ts_elf_object *object, void *data), void *data);

/** Address of the first function @name found so, or 0.  As above. */
uintptr_t ts_elf_next(const char *name);

/** Bounds of the executable segments of @object. */
void ts_elf_code(const struct ts_elf_object *object, uintptr_t *ret_low, uintptr_t *ret_high);

/** GNU build id of @object, hashed; where it has none, the hash of its code. */
struct ts_hash128 ts_elf_identity(const struct ts_elf_object *object);

#endif
