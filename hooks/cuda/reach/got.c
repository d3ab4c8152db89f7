/* SPDX-License-Identifier: MIT */
/*
 * Libraries that are bound past us.
 *
 * The loader binds what a library with RTLD_DEEPBIND calls in that library and its needs first.
 * So its dlsym is the C library's, and its copies, if it is linked with the driver, the
 * driver's; what it loads by them is then unseen.  All others have ours in these places, or
 * another preload's that stands before us; their slots hold other addresses and are left alone.
 *
 * A slot is written only when the loader is done with it.  One that the loader makes read-only
 * (PT_GNU_RELRO) is, when /proc/self/maps says that it is read-only; its page is made writable
 * for one store and read-only again, which nobody else does any more.  One that stays writable
 * is, when it holds the address that we look for.  All that under the loader's lock, so the
 * library does not go meanwhile.  What is not ready yet is looked at again the next time.
 */
#include "hooks/cuda/reach/got.h"

#include "hooks/cuda/abi.h"
#include "hooks/cuda/library.h"
#include "hooks/cuda/reach/substitute.h"
#include "shim/atomic.h"
#include "shim/elf.h"
#include "shim/scratch.h"
#include "shim/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__x86_64__)
#define JUMP_SLOT R_X86_64_JUMP_SLOT
#define GLOB_DAT  R_X86_64_GLOB_DAT
#elif defined(__aarch64__)
#define JUMP_SLOT R_AARCH64_JUMP_SLOT
#define GLOB_DAT  R_AARCH64_GLOB_DAT
#endif

#ifdef JUMP_SLOT

static uintptr_t real_dlsym, our_dlsym; /* 0: nothing is ever changed */

/* What was seen, by the loader's counts; all but the first only under its lock. */
static _Atomic unsigned long long loads_seen;
static unsigned long long unloads_seen;
static unsigned seen, tries;

/* Looks at a library that does not get ready: another thread is just loading it. */
#define TRIES_MAX 64u

static const char *const copies[] = {
#define TS_X(symbol, kind, which) #symbol,
	TS_CUDA_EXPORTED(TS_X)
#undef TS_X
};

static bool is_copy(const char *name)
{
	if (name[0] != 'c' || name[1] != 'u' || (name[2] != 'M' && name[2] != 'D'))
		return false;
	for (size_t i = 0; i < TS_ARRAY_SIZE(copies); i++)
		if (strcmp(copies[i], name) == 0)
			return true;
	return false;
}

/* What belongs where @name was bound to @value; 0: what is there. */
static uintptr_t ours(const char *name, uintptr_t value)
{
	if (strcmp(name, "dlsym") == 0)
		return value == real_dlsym ? our_dlsym : 0;
	void *call = is_copy(name) ? ts_cuda_substitute((void *)value, name, NULL) : NULL;
	return (uintptr_t)call == value ? 0 : (uintptr_t)call;
}

/* ---- one slot --------------------------------------------------------------------------- */

struct line {
	uintptr_t begin, end;
	bool writable, readable;
};

/* "7f0c1000-7f0c3000 rw-p ..."; false at something else. */
static bool read_line(const char *text, struct line *ret_line)
{
	uintptr_t bounds[2] = {0, 0};
	for (int i = 0; i < 2; i++, text++) {
		const char *begin = text;
		for (; (*text >= '0' && *text <= '9') || (*text >= 'a' && *text <= 'f'); text++)
			bounds[i] = bounds[i] << 4 |
				    (uintptr_t)(*text <= '9' ? *text - '0' : *text - 'a' + 10);
		if (text == begin || *text != (i == 0 ? '-' : ' '))
			return false;
	}
	*ret_line = (struct line){bounds[0], bounds[1], text[1] == 'w', text[0] == 'r'};
	return true;
}

/* Whether @address is mapped for reading only, as the kernel has it. */
static bool is_read_only(uintptr_t address)
{
	char *text TS_SCRATCH = ts_scratch();
	size_t kept = 0;
	if (!text)
		return false;
	int fd = ts_sys_open("/proc/self/maps", O_RDONLY | O_CLOEXEC, 0);
	bool found = false, only = false;
	while (fd >= 0 && !found) {
		int64_t got = ts_sys_read(fd, text + kept, TS_SCRATCH_BYTES - 1 - kept);
		if (got <= 0)
			break;
		text[kept + (size_t)got] = '\0';
		char *at = text;
		for (char *end; !found && (end = strchr(at, '\n')) != NULL; at = end + 1) {
			struct line line;
			*end = '\0';
			if (!read_line(at, &line) || address < line.begin ||
				address >= line.end)
				continue;
			found = true;
			only = line.readable && !line.writable;
		}
		/* The beginning of a line whose end comes next. */
		for (kept = 0; at[kept]; kept++)
			text[kept] = at[kept];
	}
	if (fd >= 0)
		(void)ts_sys_close(fd);
	return only;
}

/* Whether the loader makes the page of @address read-only at the end, and whether it lies in a
 * segment that can be written at all. */
static bool is_relro(const struct ts_elf_object *object, uintptr_t address, bool *ret_data)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	bool relro = false;
	*ret_data = false;
	for (unsigned i = 0; i < object->phdr_count; i++) {
		const ElfW(Phdr) *p = &object->phdr[i];
		uintptr_t begin = object->base + p->p_vaddr, end = begin + p->p_memsz;
		if (p->p_type == PT_LOAD && p->p_flags & PF_W)
			*ret_data |= address >= begin && address < end;
		if (p->p_type == PT_GNU_RELRO)
			relro |= address >= (begin & -page) && address < (end & -page);
	}
	return relro;
}

/* false: not yet. */
static bool put(const struct ts_elf_object *object, _Atomic uintptr_t *slot, uintptr_t call)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)slot & -page;
	bool data;
	if (!is_relro(object, (uintptr_t)slot, &data)) {
		if (data)
			ts_write_release(slot, call);
		return true;
	}
	if (!is_read_only((uintptr_t)slot))
		return false;
	if (mprotect((void *)at, page, PROT_READ | PROT_WRITE) != 0)
		return true; /* forbidden here: unseen, as without us */
	ts_write_release(slot, call);
	(void)mprotect((void *)at, page, PROT_READ);
	return true;
}

/* ---- one library ------------------------------------------------------------------------ */

struct tables {
	const ElfW(Rela) * lists[2];
	size_t counts[2];
};

static const void *pointer_of(const struct ts_elf_object *object, ElfW(Addr) value)
{
	return (const void *)(value < object->base ? object->base + value : value);
}

static struct tables read_tables(const struct ts_elf_object *object)
{
	struct tables tables = {{NULL, NULL}, {0, 0}};
	for (const ElfW(Dyn) *d = object->dynamic; d->d_tag != DT_NULL; d++) {
		if (d->d_tag == DT_JMPREL)
			tables.lists[0] = pointer_of(object, d->d_un.d_ptr);
		else if (d->d_tag == DT_PLTRELSZ)
			tables.counts[0] = d->d_un.d_val / sizeof(ElfW(Rela));
		else if (d->d_tag == DT_RELA)
			tables.lists[1] = pointer_of(object, d->d_un.d_ptr);
		else if (d->d_tag == DT_RELASZ)
			tables.counts[1] = d->d_un.d_val / sizeof(ElfW(Rela));
	}
	return tables;
}

/* Undefined symbols come first: most libraries are done with these. */
static bool is_concerned(const struct ts_elf_object *object)
{
	if (!object->gnu_hash || !object->symbols || !object->strings)
		return false;
	for (uint32_t i = 1; i < object->gnu_hash[1]; i++) {
		const char *name = object->strings + object->symbols[i].st_name;
		if (is_copy(name) || strcmp(name, "dlsym") == 0)
			return true;
	}
	return false;
}

/* false: some slot is not ready yet. */
static bool look_at_slot(const struct ts_elf_object *object, const ElfW(Rela) * relocation)
{
	const ElfW(Sym) *symbol = &object->symbols[ELF64_R_SYM(relocation->r_info)];
	unsigned type = ELF64_R_TYPE(relocation->r_info);
	_Atomic uintptr_t *slot = (_Atomic uintptr_t *)(object->base + relocation->r_offset);
	if ((type != JUMP_SLOT && type != GLOB_DAT) || symbol->st_shndx != SHN_UNDEF)
		return true;
	const char *name = object->strings + symbol->st_name;
	if (strcmp(name, "dlsym") != 0 && !is_copy(name))
		return true;
	uintptr_t value = ts_load_relaxed(slot);
	/* What the file says: not bound yet, unless nothing has to be found. */
	if (value <= UINT32_MAX)
		return ELF64_ST_BIND(symbol->st_info) == STB_WEAK;
	uintptr_t call = ours(name, value);
	return call == 0 || put(object, slot, call);
}

static bool look_in(const struct ts_elf_object *object)
{
	struct tables tables = read_tables(object);
	bool ready = true;
	for (int i = 0; i < 2; i++)
		for (size_t j = 0; tables.lists[i] && j < tables.counts[i]; j++)
			ready &= look_at_slot(object, &tables.lists[i][j]);
	return ready;
}

/* ---- all of them ------------------------------------------------------------------------ */

struct walk {
	unsigned at, skip, done;
	bool ready;
};

/* New ones are last, so those before @skip were seen. */
static bool look_at_object(const struct ts_elf_object *object, void *data)
{
	struct walk *walk = data;
	bool known = walk->at++ < walk->skip;
	if (!known && !ts_cuda_is_driver(object) && is_concerned(object))
		walk->ready &= look_in(object);
	if (walk->ready)
		walk->done = walk->at;
	return false;
}

static void look(void *unused)
{
	unsigned long long loads, unloads;
	ts_elf_counts(&loads, &unloads);
	unsigned long long gone = unloads - unloads_seen;
	struct walk walk = {.skip = gone < seen ? seen - (unsigned)gone : 0, .ready = true};
	(void)ts_elf_each(look_at_object, &walk);
	unloads_seen = unloads;
	tries = walk.ready ? 0 : tries + 1;
	if (tries < TRIES_MAX) {
		seen = walk.done;
	} else {
		seen = walk.at;
		tries = 0;
	}
	/* Pairs with the load in ts_got_look(): the slots before it is said. */
	if (tries == 0)
		ts_write_release(&loads_seen, loads);
}

void ts_got_look(void)
{
	unsigned long long loads, unloads;
	ts_elf_counts(&loads, &unloads);
	if (TS_LIKELY(loads == ts_load_acquire(&loads_seen)) || !real_dlsym || !our_dlsym)
		return;
	int error = errno;
	ts_elf_locked(look, NULL);
	errno = error;
}

/* The last one is the C library's. */
static bool find_dlsym(const struct ts_elf_object *object, void *data)
{
	struct ts_elf_object *self = data;
	uintptr_t found = ts_elf_function(object, "dlsym");
	if (found && object->dynamic == self->dynamic)
		our_dlsym = found;
	else if (found)
		real_dlsym = found;
	seen++;
	return false;
}

void ts_got_begin(void)
{
	struct ts_elf_object self;
	unsigned long long loads;
	if (!ts_elf_containing((uintptr_t)&find_dlsym, &self))
		return;
	ts_elf_counts(&loads, &unloads_seen);
	(void)ts_elf_each(find_dlsym, &self);
	ts_write_relaxed(&loads_seen, loads);
}

#else

void ts_got_begin(void)
{
}

void ts_got_look(void)
{
}

#endif
