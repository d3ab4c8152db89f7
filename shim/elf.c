/* SPDX-License-Identifier: MIT */
/* Loaded ELF objects, read in place. Formats: System V gABI chapter 5, GNU hash section. */
#include "shim/elf.h"
#include "shim/scratch.h"

#include <string.h>

/* glibc relocates the pointers of a writable dynamic section in place; others do not. */
static const void *dynamic_pointer(ElfW(Addr) base, ElfW(Addr) value)
{
	return (const void *)(value < base ? base + value : value);
}

static void read_dynamic(struct ts_elf_object *object)
{
	ElfW(Xword) soname = 0; /* at 0 is the empty string */
	for (const ElfW(Dyn) *d = object->dynamic; d->d_tag != DT_NULL; d++) {
		switch (d->d_tag) {
		case DT_STRTAB:
			object->strings = dynamic_pointer(object->base, d->d_un.d_ptr);
			break;
		case DT_SYMTAB:
			object->symbols = dynamic_pointer(object->base, d->d_un.d_ptr);
			break;
		case DT_GNU_HASH:
			object->gnu_hash = dynamic_pointer(object->base, d->d_un.d_ptr);
			break;
		case DT_HASH:
			object->hash = dynamic_pointer(object->base, d->d_un.d_ptr);
			break;
		case DT_SONAME:
			soname = d->d_un.d_val;
			break;
		default:
			break;
		}
	}
	if (soname != 0 && object->strings)
		object->soname = object->strings + soname;
}

static bool read_object(const struct dl_phdr_info *info, struct ts_elf_object *ret_object)
{
	struct ts_elf_object object = {
		.base = info->dlpi_addr,
		.phdr = info->dlpi_phdr,
		.phdr_count = info->dlpi_phnum,
		.path = info->dlpi_name ? info->dlpi_name : "",
	};
	for (unsigned i = 0; i < object.phdr_count; i++)
		if (object.phdr[i].p_type == PT_DYNAMIC)
			object.dynamic = (const void *)(object.base + object.phdr[i].p_vaddr);
	if (!object.dynamic)
		return false;
	read_dynamic(&object);
	*ret_object = object;
	return true;
}

struct locked_call {
	void (*work)(void *data);
	void *data;
};

static int run_locked(struct dl_phdr_info *info, size_t bytes, void *data)
{
	(void)info;
	(void)bytes;
	const struct locked_call *call = data;
	call->work(call->data);
	return 1;
}

void ts_elf_locked(void (*work)(void *data), void *data)
{
	struct locked_call call = {work, data};
	dl_iterate_phdr(run_locked, &call);
}

struct counts {
	unsigned long long loads, unloads;
};

static int read_counts(struct dl_phdr_info *info, size_t bytes, void *data)
{
	if (bytes >= offsetof(struct dl_phdr_info, dlpi_subs) + sizeof(info->dlpi_subs))
		*(struct counts *)data = (struct counts){info->dlpi_adds, info->dlpi_subs};
	return 1;
}

void ts_elf_counts(unsigned long long *ret_loads, unsigned long long *ret_unloads)
{
	struct counts counts = {0, 0};
	dl_iterate_phdr(read_counts, &counts);
	*ret_loads = counts.loads;
	*ret_unloads = counts.unloads;
}

unsigned long long ts_elf_unloads(void)
{
	unsigned long long loads, unloads;
	ts_elf_counts(&loads, &unloads);
	return unloads;
}

struct each_call {
	bool (*visit)(const struct ts_elf_object *object, void *data);
	void *data;
};

static int visit_one(struct dl_phdr_info *info, size_t bytes, void *data)
{
	(void)bytes;
	const struct each_call *call = data;
	struct ts_elf_object object;
	return read_object(info, &object) && call->visit(&object, call->data);
}

bool ts_elf_each(bool (*visit)(const struct ts_elf_object *object, void *data), void *data)
{
	struct each_call call = {visit, data};
	return dl_iterate_phdr(visit_one, &call) != 0;
}

static bool contains(const struct ts_elf_object *object, uintptr_t address)
{
	for (unsigned i = 0; i < object->phdr_count; i++) {
		const ElfW(Phdr) *p = &object->phdr[i];
		if (p->p_type == PT_LOAD && address - (object->base + p->p_vaddr) < p->p_memsz)
			return true;
	}
	return false;
}

struct containing_search {
	uintptr_t address;
	struct ts_elf_object *found;
};

static bool is_containing(const struct ts_elf_object *object, void *data)
{
	struct containing_search *search = data;
	if (!contains(object, search->address))
		return false;
	*search->found = *object;
	return true;
}

bool ts_elf_containing(uintptr_t address, struct ts_elf_object *ret_object)
{
	struct containing_search search = {address, ret_object};
	return ts_elf_each(is_containing, &search);
}

static bool is_function(const struct ts_elf_object *object, uint32_t index, const char *name)
{
	const ElfW(Sym) *symbol = &object->symbols[index];
	unsigned type = ELF64_ST_TYPE(symbol->st_info), bind = ELF64_ST_BIND(symbol->st_info);
	return symbol->st_shndx != SHN_UNDEF && symbol->st_value != 0 &&
	       (type == STT_FUNC || type == STT_NOTYPE) &&
	       (bind == STB_GLOBAL || bind == STB_WEAK) &&
	       strcmp(object->strings + symbol->st_name, name) == 0;
}

/* Layout: bucket count, first symbol, bloom words, bloom shift, bloom, buckets, chains. */
static uint32_t gnu_lookup(const struct ts_elf_object *object, const char *name)
{
	uint32_t hash = 5381;
	for (const unsigned char *c = (const unsigned char *)name; *c; c++)
		hash = hash * 33 + *c;
	const uint32_t *table = object->gnu_hash;
	uint32_t bucket_count = table[0], first = table[1], bloom_count = table[2];
	const ElfW(Addr) *bloom = (const void *)(table + 4);
	const uint32_t *buckets = (const void *)(bloom + bloom_count);
	const uint32_t *chains = buckets + bucket_count;
	if (bucket_count == 0)
		return 0;
	for (uint32_t i = buckets[hash % bucket_count]; i >= first && i != 0; i++) {
		uint32_t chained = chains[i - first];
		if ((chained | 1) == (hash | 1) && is_function(object, i, name))
			return i;
		if (chained & 1)
			break;
	}
	return 0;
}

/* Layout: bucket count, chain count, buckets, chains. */
static uint32_t sysv_lookup(const struct ts_elf_object *object, const char *name)
{
	uint32_t hash = 0;
	for (const unsigned char *c = (const unsigned char *)name; *c; c++) {
		hash = (hash << 4) + *c;
		hash = (hash ^ ((hash & 0xf0000000) >> 24)) & 0x0fffffff;
	}
	const uint32_t *table = object->hash;
	const uint32_t *chains = table + 2 + table[0];
	if (table[0] == 0)
		return 0;
	for (uint32_t i = table[2 + hash % table[0]]; i != 0 && i < table[1]; i = chains[i])
		if (is_function(object, i, name))
			return i;
	return 0;
}

uintptr_t ts_elf_function(const struct ts_elf_object *object, const char *name)
{
	uint32_t index = 0;
	if (!object->symbols || !object->strings)
		return 0;
	if (object->gnu_hash)
		index = gnu_lookup(object, name);
	else if (object->hash)
		index = sysv_lookup(object, name);
	return index ? object->base + object->symbols[index].st_value : 0;
}

static bool is_referred(const struct ts_elf_object *object, ElfW(Addr) relocations,
	ElfW(Xword) bytes, const char *name)
{
	const ElfW(Rela) *all = dynamic_pointer(object->base, relocations);
	for (size_t i = 0; i < bytes / sizeof(*all); i++) {
		const ElfW(Sym) *symbol = &object->symbols[ELF64_R_SYM(all[i].r_info)];
		if (symbol->st_shndx == SHN_UNDEF &&
			strcmp(object->strings + symbol->st_name, name) == 0)
			return true;
	}
	return false;
}

/* By its relocations: how many symbols it has, a GNU hash table does not say. */
bool ts_elf_refers(const struct ts_elf_object *object, const char *name)
{
	ElfW(Addr) calls = 0, others = 0;
	ElfW(Xword) calls_bytes = 0, others_bytes = 0;
	if (!object->symbols || !object->strings)
		return false;
	for (const ElfW(Dyn) *d = object->dynamic; d->d_tag != DT_NULL; d++) {
		if (d->d_tag == DT_JMPREL)
			calls = d->d_un.d_ptr;
		else if (d->d_tag == DT_PLTRELSZ)
			calls_bytes = d->d_un.d_val;
		else if (d->d_tag == DT_RELA)
			others = d->d_un.d_ptr;
		else if (d->d_tag == DT_RELASZ)
			others_bytes = d->d_un.d_val;
	}
	return (calls && is_referred(object, calls, calls_bytes, name)) ||
	       (others && is_referred(object, others, others_bytes, name));
}

struct name_search {
	const char *name;
	struct ts_elf_object *found;
};

/* As the loader does: by soname, else by the last part of the path it was loaded from. */
static bool has_name(const struct ts_elf_object *object, void *data)
{
	struct name_search *search = data;
	const char *slash = strrchr(object->path, '/');
	const char *file = slash ? slash + 1 : object->path;
	bool is_path = strchr(search->name, '/') != NULL;
	if (!(object->soname && strcmp(object->soname, search->name) == 0) &&
		strcmp(is_path ? object->path : file, search->name) != 0)
		return false;
	*search->found = *object;
	return true;
}

/* Objects looked at before a search gives up; torch's own closure has some 60. */
#define PROVIDER_SEARCH_MAX 256u

/** What is still to be looked at, by their dynamic sections, and the one that is. */
struct queue {
	const ElfW(Dyn) * dynamic[PROVIDER_SEARCH_MAX];
	struct ts_elf_object object;
	unsigned count;
};

_Static_assert(sizeof(struct queue) <= TS_SCRATCH_BYTES, "fits into a block");

static void enqueue_needed(struct queue *queue)
{
	for (const ElfW(Dyn) *d = queue->object.dynamic; d->d_tag != DT_NULL; d++) {
		if (d->d_tag != DT_NEEDED || queue->count == PROVIDER_SEARCH_MAX)
			continue;
		struct ts_elf_object needed;
		struct name_search search = {queue->object.strings + d->d_un.d_val, &needed};
		if (!ts_elf_each(has_name, &search))
			continue;
		unsigned seen = 0;
		while (seen < queue->count && queue->dynamic[seen] != needed.dynamic)
			seen++;
		if (seen == queue->count)
			queue->dynamic[queue->count++] = needed.dynamic;
	}
}

bool ts_elf_provider(const struct ts_elf_object *start, const char *name, uintptr_t except,
	struct ts_elf_object *ret_object)
{
	struct queue *queue TS_SCRATCH = ts_scratch();
	if (!queue)
		return false;
	queue->dynamic[0] = start->dynamic;
	queue->object = *start;
	queue->count = 1;
	for (unsigned i = 0;;) {
		if (!contains(&queue->object, except) &&
			ts_elf_function(&queue->object, name)) {
			*ret_object = queue->object;
			return true;
		}
		if (queue->object.strings)
			enqueue_needed(queue);
		/* One that is unloaded meanwhile is left out. */
		do {
			if (++i >= queue->count)
				return false;
		} while (!ts_elf_containing((uintptr_t)queue->dynamic[i], &queue->object));
	}
}

struct next_search {
	bool (*visit)(const struct ts_elf_object *object, void *data);
	void *data;
	const ElfW(Dyn) * self;
	bool behind; /* us in load order */
};

static bool look_in(const struct ts_elf_object *object, void *data)
{
	struct next_search *search = data;
	if (object->dynamic == search->self) {
		search->behind = true;
		return false;
	}
	return search->behind && search->visit(object, search->data);
}

bool ts_elf_each_next(bool (*visit)(const struct ts_elf_object *object, void *data), void *data)
{
	struct next_search search = {.visit = visit, .data = data};
	struct ts_elf_object self;
	if (ts_elf_containing((uintptr_t)&look_in, &self))
		search.self = self.dynamic;
	if (search.self && ts_elf_each(look_in, &search))
		return true;
	search.behind = true;
	return ts_elf_each(look_in, &search);
}

struct next_name {
	const char *name;
	uintptr_t found;
};

static bool defines(const struct ts_elf_object *object, void *data)
{
	struct next_name *name = data;
	name->found = ts_elf_function(object, name->name);
	return name->found != 0;
}

uintptr_t ts_elf_next(const char *name)
{
	struct next_name wanted = {.name = name};
	(void)ts_elf_each_next(defines, &wanted);
	return wanted.found;
}

void ts_elf_code(const struct ts_elf_object *object, uintptr_t *ret_low, uintptr_t *ret_high)
{
	uintptr_t low = UINTPTR_MAX, high = 0;
	for (unsigned i = 0; i < object->phdr_count; i++) {
		const ElfW(Phdr) *p = &object->phdr[i];
		if (p->p_type != PT_LOAD || !(p->p_flags & PF_X))
			continue;
		uintptr_t begin = object->base + p->p_vaddr;
		low = begin < low ? begin : low;
		high = begin + p->p_memsz > high ? begin + p->p_memsz : high;
	}
	*ret_low = low < high ? low : 0;
	*ret_high = low < high ? high : 0;
}

static bool find_build_id(
	const struct ts_elf_object *object, const uint8_t **ret_id, uint32_t *ret_bytes)
{
	for (unsigned i = 0; i < object->phdr_count; i++) {
		const ElfW(Phdr) *p = &object->phdr[i];
		if (p->p_type != PT_NOTE)
			continue;
		const uint8_t *at = (const uint8_t *)(object->base + p->p_vaddr);
		const uint8_t *end = at + p->p_memsz;
		while ((size_t)(end - at) >= sizeof(ElfW(Nhdr))) {
			const ElfW(Nhdr) *note = (const void *)at;
			const uint8_t *name = at + sizeof(*note);
			uint64_t left = (uint64_t)(end - name);
			uint64_t name_bytes = ts_align_up(note->n_namesz, 4);
			uint64_t desc_bytes = ts_align_up(note->n_descsz, 4);
			if (name_bytes > left || desc_bytes > left - name_bytes)
				break;
			if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 &&
				memcmp(name, "GNU", 4) == 0 && note->n_descsz >= 8) {
				*ret_id = name + name_bytes;
				*ret_bytes = note->n_descsz;
				return true;
			}
			at = name + name_bytes + desc_bytes;
		}
	}
	return false;
}

struct ts_hash128 ts_elf_identity(const struct ts_elf_object *object)
{
	const uint8_t *id;
	uint32_t bytes;
	if (find_build_id(object, &id, &bytes))
		return ts_hash128(id, bytes);

	struct ts_hasher hasher;
	ts_hasher_init(&hasher);
	for (unsigned i = 0; i < object->phdr_count; i++) {
		const ElfW(Phdr) *p = &object->phdr[i];
		if (p->p_type == PT_LOAD && (p->p_flags & PF_X) && (p->p_flags & PF_R))
			ts_hasher_add(&hasher, (const void *)(object->base + p->p_vaddr),
				p->p_filesz);
	}
	return ts_hasher_digest(&hasher);
}
