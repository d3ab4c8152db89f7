/* SPDX-License-Identifier: MIT */
/*
 * The lock of the loader's list of objects, in fork children.
 *
 * It has no name, but it lies in the loader's data and is the one mutex there that this thread
 * has while it is called back by dl_iterate_phdr, and nobody afterwards.
 */
#include "shim/elf_lock.h"

#include "shim/elf.h"

#include <pthread.h>
#include <string.h>

#ifdef __GLIBC__

static pthread_mutex_t *lock; /* NULL: not found */
static pthread_mutex_t unlocked;

struct search {
	uintptr_t begin, end; /* of the loader's data */
	pthread_mutex_t *found;
	unsigned count;
};

static bool is_loader(const struct ts_elf_object *object, void *data)
{
	struct search *search = data;
	if (!object->soname || strncmp(object->soname, "ld-linux", 8) != 0)
		return false;
	for (unsigned i = 0; i < object->phdr_count; i++) {
		const ElfW(Phdr) *p = &object->phdr[i];
		if (p->p_type != PT_LOAD || !(p->p_flags & PF_W))
			continue;
		search->begin = ts_align_up(object->base + p->p_vaddr, sizeof(void *));
		search->end = object->base + p->p_vaddr + p->p_memsz;
	}
	return true;
}

/* Of this thread, as locks have it: no system call.  0 where they are not locks yet. */
static int own_id(void)
{
	pthread_mutex_t mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
	(void)pthread_mutex_lock(&mutex);
	int self = mutex.__data.__owner;
	(void)pthread_mutex_unlock(&mutex);
	return self;
}

/* Under the lock. */
static void look(void *data)
{
	struct search *search = data;
	int self = own_id();
	for (uintptr_t at = search->begin;
		self != 0 && at + sizeof(pthread_mutex_t) <= search->end;
		at += sizeof(void *)) {
		pthread_mutex_t *mutex = (pthread_mutex_t *)at;
		if (mutex->__data.__owner != self || mutex->__data.__lock == 0 ||
			mutex->__data.__count != 1 ||
			mutex->__data.__kind != PTHREAD_MUTEX_RECURSIVE_NP)
			continue;
		search->found = mutex;
		search->count++;
	}
}

/* Nobody else runs here yet, and who had it is no thread of this process. */
static void make_anew(void)
{
	if (lock)
		*lock = unlocked;
}

void ts_elf_lock_init(void)
{
	struct search search = {0};
	if (!ts_elf_each(is_loader, &search))
		return;
	ts_elf_locked(look, &search);
	if (search.count != 1)
		return;
	unlocked = *search.found;
	if (unlocked.__data.__owner != 0 || unlocked.__data.__lock != 0 ||
		unlocked.__data.__count != 0 || unlocked.__data.__nusers != 0)
		return;
	lock = search.found;
	(void)pthread_atfork(NULL, NULL, make_anew);
}

#else

void ts_elf_lock_init(void)
{
}

#endif
