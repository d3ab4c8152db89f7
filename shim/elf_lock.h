/* SPDX-License-Identifier: MIT */
/* The lock of the loader's list of objects, in fork children. */
#ifndef TS_SHIM_ELF_LOCK_H
#define TS_SHIM_ELF_LOCK_H

/**
 * From now on a fork child does not wait for ever when it reads the list (shim/elf.h, or
 * anybody's dl_iterate_phdr) because another thread of its parent was reading it, or adding an
 * object.  One that was removing an object (dlclose) may have left it half done: the child
 * finds memory that is not mapped where it would have waited for ever.  Once, from the
 * constructor.
 *
 * The C library makes the loader's other locks anew in a child (posix/fork.c), this one not: a
 * thread that was in dl_iterate_phdr, or about to add an object, leaves it locked for ever. Few
 * programs notice, for few read the list in a child; we do, at every lookup and JPEG image.
 *
 * Where the lock is not found without a doubt nothing is changed; nor in children that run no
 * fork handlers (_Fork, clone).
 */
void ts_elf_lock_init(void);

#endif
