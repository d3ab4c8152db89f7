/* SPDX-License-Identifier: MIT */
/* The next definitions behind ours in load order. */
#include "shim/elf_next.h"

struct search {
	bool (*visit)(const struct ts_elf_object *object, void *data);
	void *data;
	const ElfW(Dyn) * self;
	bool behind; /* us in load order */
};

static bool look_in(const struct ts_elf_object *object, void *data)
{
	struct search *search = data;
	if (object->dynamic == search->self) {
		search->behind = true;
		return false;
	}
	return search->behind && search->visit(object, search->data);
}

bool ts_elf_each_next(bool (*visit)(const struct ts_elf_object *object, void *data), void *data)
{
	struct search search = {.visit = visit, .data = data};
	struct ts_elf_object self;
	if (ts_elf_containing((uintptr_t)&look_in, &self))
		search.self = self.dynamic;
	if (search.self && ts_elf_each(look_in, &search))
		return true;
	search.behind = true;
	return ts_elf_each(look_in, &search);
}

struct name {
	const char *name;
	uintptr_t found;
};

static bool defines(const struct ts_elf_object *object, void *data)
{
	struct name *name = data;
	name->found = ts_elf_function(object, name->name);
	return name->found != 0;
}

uintptr_t ts_elf_next(const char *name)
{
	struct name wanted = {.name = name};
	(void)ts_elf_each_next(defines, &wanted);
	return wanted.found;
}
