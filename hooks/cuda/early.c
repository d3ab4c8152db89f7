/* SPDX-License-Identifier: MIT */
/*
 * Finding a function before this library may call any.
 *
 * The kernel tells in /proc/self/auxv where the program's headers are, those lead to its
 * dynamic section, and there the loader has left the list of what it loaded (DT_DEBUG, the
 * interface for debuggers of <link.h>).  Compiled as freestanding code (meson.build), so that
 * no loop becomes a call of memset.
 */
#include "hooks/cuda/reach.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/syscall.h>

extern ElfW(Dyn) _DYNAMIC[] __attribute__((visibility("hidden")));

#if defined(__x86_64__)
static long call_kernel(long number, long a, long b, long c, long d)
{
	register long fourth __asm__("r10") = d;
	long result;
	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "0"(number), "D"(a), "S"(b), "d"(c), "r"(fourth)
			 : "rcx", "r11", "memory");
	return result;
}
#elif defined(__aarch64__)
static long call_kernel(long number, long a, long b, long c, long d)
{
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
	return x0;
}
#else
static long call_kernel(long number, long a, long b, long c, long d)
{
	return -ENOSYS;
}
#endif

/* The program's headers and their number. */
static const ElfW(Phdr) * find_headers(unsigned *ret_count)
{
	ElfW(auxv_t) entry = {AT_NULL, {0}};
	const ElfW(Phdr) *headers = NULL;
	long fd = call_kernel(
		SYS_openat, AT_FDCWD, (long)"/proc/self/auxv", O_RDONLY | O_CLOEXEC, 0);
	if (fd < 0)
		return NULL;
	while (call_kernel(SYS_read, fd, (long)&entry, sizeof(entry), 0) == sizeof(entry)) {
		if (entry.a_type == AT_PHDR)
			headers = (const ElfW(Phdr) *)entry.a_un.a_val;
		else if (entry.a_type == AT_PHNUM)
			*ret_count = (unsigned)entry.a_un.a_val;
	}
	(void)call_kernel(SYS_close, fd, 0, 0, 0);
	return headers;
}

/* The loaded objects, in load order. */
static const struct link_map *find_loaded(void)
{
	unsigned count = 0;
	const ElfW(Phdr) *headers = find_headers(&count);
	const ElfW(Dyn) *dynamic = NULL;
	ElfW(Addr) base = 0;
	for (unsigned i = 0; headers && i < count; i++)
		if (headers[i].p_type == PT_PHDR)
			base = (ElfW(Addr))headers - headers[i].p_vaddr;
	for (unsigned i = 0; headers && i < count; i++)
		if (headers[i].p_type == PT_DYNAMIC)
			dynamic = (const ElfW(Dyn) *)(base + headers[i].p_vaddr);
	for (; dynamic && dynamic->d_tag != DT_NULL; dynamic++)
		if (dynamic->d_tag == DT_DEBUG && dynamic->d_un.d_ptr)
			return ((const struct r_debug *)dynamic->d_un.d_ptr)->r_map;
	return NULL;
}

static bool is_same(const char *one, const char *other)
{
	while (*one && *one == *other) {
		one++;
		other++;
	}
	return *one == *other;
}

/* glibc relocates the pointers of a writable dynamic section in place; others do not. */
static const void *pointer_of(const struct link_map *object, ElfW(Addr) value)
{
	return (const void *)(value < object->l_addr ? object->l_addr + value : value);
}

struct tables {
	const char *strings;
	const ElfW(Sym) * symbols;
	const uint32_t *gnu_hash;
};

static void read_tables(const struct link_map *object, struct tables *ret_tables)
{
	ret_tables->strings = NULL;
	ret_tables->symbols = NULL;
	ret_tables->gnu_hash = NULL;
	for (const ElfW(Dyn) *d = object->l_ld; d && d->d_tag != DT_NULL; d++) {
		if (d->d_tag == DT_STRTAB)
			ret_tables->strings = pointer_of(object, d->d_un.d_ptr);
		else if (d->d_tag == DT_SYMTAB)
			ret_tables->symbols = pointer_of(object, d->d_un.d_ptr);
		else if (d->d_tag == DT_GNU_HASH)
			ret_tables->gnu_hash = pointer_of(object, d->d_un.d_ptr);
	}
}

/* Layout: bucket count, first symbol, bloom words, bloom shift, bloom, buckets, chains. */
static uintptr_t function_in(const struct link_map *object, const char *name)
{
	struct tables tables;
	uint32_t hash = 5381;
	read_tables(object, &tables);
	const uint32_t *table = tables.gnu_hash;
	if (!table || !tables.symbols || !tables.strings || table[0] == 0)
		return 0;
	for (const unsigned char *c = (const unsigned char *)name; *c; c++)
		hash = hash * 33 + *c;
	const uint32_t *buckets =
		table + 4 + table[2] * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
	const uint32_t *chains = buckets + table[0];
	for (uint32_t i = buckets[hash % table[0]]; i >= table[1] && i != 0; i++) {
		const ElfW(Sym) *symbol = &tables.symbols[i];
		if (symbol->st_shndx != SHN_UNDEF && symbol->st_value != 0 &&
			ELF64_ST_TYPE(symbol->st_info) == STT_FUNC &&
			is_same(tables.strings + symbol->st_name, name))
			return object->l_addr + symbol->st_value;
		if (chains[i - table[1]] & 1)
			break;
	}
	return 0;
}

uintptr_t ts_early_function(const char *name)
{
	bool behind = false;
	for (const struct link_map *object = find_loaded(); object; object = object->l_next) {
		uintptr_t found = behind ? function_in(object, name) : 0;
		if (found)
			return found;
		behind |= object->l_ld == _DYNAMIC;
	}
	return 0;
}
