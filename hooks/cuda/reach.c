/* SPDX-License-Identifier: MIT */
/*
 * dlsym, which we stand in front of because programs find the CUDA driver through it.
 *
 * The C library takes the object that asks from the return address: for RTLD_NEXT and
 * RTLD_DEFAULT an ordinary wrapper would make every library of the process search behind us
 * instead of behind itself.  So the exported function is a few instructions that end in a jump
 * to the next definition (another preload's, else the C library's): always for these two, and
 * for everything unless copies to a GPU are shared.
 *
 * Some libraries are bound past us.  The loader binds what a library with RTLD_DEEPBIND calls
 * in that library and its needs first.  So its dlsym is the C library's, and its copies, if it
 * is linked with the driver, the driver's: copies of a driver that it loads pass unseen.  All
 * others have ours in these places, or another preload's that stands before us; their slots
 * hold other addresses and are left alone.  Before each lookup through a handle we look at what
 * was loaded since the last one: a program that loads a library looks up its entry next, and
 * only that entry's code looks for a driver.
 *
 * A slot is written only when the loader is done with it.  One that the loader makes read-only
 * (PT_GNU_RELRO) is, when the kernel has it so; its page is made writable for one store and
 * read-only again, which nobody else does any more.  One that stays writable is, when it holds
 * the address that we look for.  All that under the loader's lock, so the library does not go
 * meanwhile.  A slot that is not ready yet is looked at again the next time.
 */
#include "hooks/cuda/reach.h"

#include "hooks/cuda/cuda_driver.h"
#include "hooks/cuda/gpu.h"
#include "hooks/cuda/pinned.h"
#include "shim/config.h"
#include "shim/identity.h"

#include <linux/futex.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
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

/* So much was seen, by the loader's counts; all but the first only under its lock. */
static _Atomic unsigned long long loads_seen;
static unsigned long long unloads_seen;
static unsigned seen, tries;

/* Looks at a library that does not get ready: another thread is just loading it. */
#define TRIES_MAX 64u

static bool is_replaced(const char *name)
{
	return ts_cuda_is_exported(name) || strcmp(name, "dlsym") == 0;
}

/* The address to put where @name was bound to @value; 0: it stays. */
static uintptr_t ours(const char *name, uintptr_t value)
{
	if (strcmp(name, "dlsym") == 0)
		return value == real_dlsym ? our_dlsym : 0;
	uintptr_t call = (uintptr_t)ts_cuda_substitute((void *)value, name, NULL);
	return call == value ? 0 : call;
}

/* ---- one slot --------------------------------------------------------------------------- */

/*
 * Whether @slot is mapped for reading only.  The kernel is asked to add nothing to it: it
 * refuses just then, and a thread that writes there meanwhile loses nothing.
 */
static bool is_read_only(const _Atomic uintptr_t *slot)
{
	uint32_t nobody = 0;
	return syscall(SYS_futex, &nobody, FUTEX_WAKE_OP | FUTEX_PRIVATE_FLAG, 0, 0, slot,
		       FUTEX_OP(FUTEX_OP_ADD, 0, FUTEX_OP_CMP_EQ, 0)) < 0 &&
	       errno == EFAULT;
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
	if (!is_read_only(slot))
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
	for (uint32_t i = 1; i < object->gnu_hash[1]; i++)
		if (is_replaced(object->strings + object->symbols[i].st_name))
			return true;
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
	if (!is_replaced(name))
		return true;
	uintptr_t value = ts_load_relaxed(slot);
	/* As in the file: not bound yet, unless nothing has to be found. */
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
	/* Pairs with the load in look_at_new(): the slots before it is said. */
	if (tries == 0)
		ts_write_release(&loads_seen, loads);
}

static void look_at_new(void)
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

static void deepbound_begin(void)
{
	struct ts_elf_object self;
	unsigned long long loads;
	if (!ts_elf_containing((uintptr_t)&find_dlsym, &self))
		return;
	ts_elf_counts(&loads, &unloads_seen);
	(void)ts_elf_each(find_dlsym, &self);
	ts_write_relaxed(&loads_seen, loads);
}

/* ---- dlsym ------------------------------------------------------------------------------ */

typedef void *dlsym_call(void *handle, const char *name);

/* The stub reads these two; nothing else does without atomics. */
__attribute__((used)) dlsym_call *_Atomic ts_dlsym_next;
__attribute__((used)) _Atomic int ts_dlsym_active;

/* Of the stub, with the return address of its caller. */
__attribute__((used)) void *ts_dlsym_handle(void *handle, const char *name, const void *caller);
__attribute__((used)) void *ts_dlsym_first(void);

/*
 * Handles -1 and 0 are RTLD_NEXT and RTLD_DEFAULT: plus one they are not above 1, unsigned.
 * Before anything was looked up there is no next definition yet: it is searched for, and
 * everything begins again.  Where there is none, nothing could have been found either.
 */
#if defined(__x86_64__)
__asm__(".text\n"
	".p2align 4\n"
	".globl dlsym\n"
	".type dlsym, @function\n"
	"dlsym:\n"
	"	.cfi_startproc\n"
	"	endbr64\n"
	"0:	movq ts_dlsym_next(%rip), %rax\n"
	"	testq %rax, %rax\n"
	"	jz 2f\n"
	"	leaq 1(%rdi), %rcx\n"
	"	cmpq $1, %rcx\n"
	"	jbe 1f\n"
	"	cmpl $0, ts_dlsym_active(%rip)\n"
	"	jne 3f\n"
	"1:	jmpq *%rax\n"
	"3:	movq (%rsp), %rdx\n"
	"	jmp ts_dlsym_handle\n"
	"2:	pushq %rdi\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	pushq %rsi\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	subq $8, %rsp\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	call ts_dlsym_first\n"
	"	addq $8, %rsp\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	popq %rsi\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	popq %rdi\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	testq %rax, %rax\n"
	"	jnz 0b\n"
	"	ret\n"
	"	.cfi_endproc\n"
	".size dlsym, . - dlsym\n");
#else
__asm__(".text\n"
	".p2align 4\n"
	".globl dlsym\n"
	".type dlsym, %function\n"
	"dlsym:\n"
	"	.cfi_startproc\n"
	"	hint #34\n" /* bti c */
	"0:	adrp x16, ts_dlsym_next\n"
	"	ldr x16, [x16, :lo12:ts_dlsym_next]\n"
	"	cbz x16, 2f\n"
	"	add x17, x0, #1\n"
	"	cmp x17, #1\n"
	"	b.ls 1f\n"
	"	adrp x17, ts_dlsym_active\n"
	"	ldr w17, [x17, :lo12:ts_dlsym_active]\n"
	"	cbnz w17, 3f\n"
	"1:	br x16\n"
	"3:	mov x2, x30\n"
	"	b ts_dlsym_handle\n"
	"2:	stp x29, x30, [sp, #-32]!\n"
	"	.cfi_adjust_cfa_offset 32\n"
	"	.cfi_offset x29, -32\n"
	"	.cfi_offset x30, -24\n"
	"	stp x0, x1, [sp, #16]\n"
	"	bl ts_dlsym_first\n"
	"	mov x16, x0\n"
	"	ldp x0, x1, [sp, #16]\n"
	"	ldp x29, x30, [sp], #32\n"
	"	.cfi_adjust_cfa_offset -32\n"
	"	.cfi_restore x29\n"
	"	.cfi_restore x30\n"
	"	cbnz x16, 0b\n"
	"	mov x0, #0\n"
	"	ret\n"
	"	.cfi_endproc\n"
	".size dlsym, . - dlsym\n");
#endif

/*
 * The answer to the same handle first.  The caller matters to the C library only for the two
 * handles that never come here.  An error, and its text for dlerror, stay what they are.
 */
void *ts_dlsym_handle(void *handle, const char *name, const void *caller)
{
	/* fork() leaves the loader's list locked if another thread was looking at it. */
	if (!ts_identity_forked())
		look_at_new();
	void *found = ts_load_relaxed(&ts_dlsym_next)(handle, name);
	return found && name ? ts_cuda_substitute(found, name, caller) : found;
}

static void find(void *data)
{
	*(uintptr_t *)data = ts_elf_next("dlsym");
}

/* Whether the loader has relocated this library: only then may it call another one. */
static bool is_relocated(void)
{
	static const volatile void *const volatile self = &self;
	return self == &self;
}

/* A call that came in before our constructor, or found nothing then: NULL, nothing yet. */
void *ts_dlsym_first(void)
{
	uintptr_t found = ts_early_function("dlsym");
	if (!found && is_relocated())
		ts_elf_locked(find, &found);
	ts_write_relaxed(&ts_dlsym_next, (dlsym_call *)found);
	return (void *)found;
}

/* Also where sharing is switched off: the calls come through here all the same. */
__attribute__((constructor)) static void find_at_start(void)
{
	uintptr_t found = 0;
	if (ts_load_relaxed(&ts_dlsym_next))
		return;
	ts_elf_locked(find, &found);
	ts_write_relaxed(&ts_dlsym_next, (dlsym_call *)found);
}

static void dlsym_begin(void)
{
	deepbound_begin();
	ts_write_relaxed(&ts_dlsym_active, 1);
}

#else

/* Programs that find the driver through dlsym are not reached on this machine. */
static void dlsym_begin(void)
{
}

#endif

/* ---- begin and end ---------------------------------------------------------------------- */

void ts_cuda_begin(void)
{
	const struct ts_config *config = ts_config();
	if (config->share == TS_SHARE_OFF || config->ring_bytes == 0 || !ts_gpu_begin())
		return;
	ts_service_begin();
	ts_pinned_begin();
	ts_cuda_calls_begin();
	dlsym_begin();
}

void ts_cuda_end(void)
{
	ts_gpu_finish();
}
