/* SPDX-License-Identifier: MIT */
/* dlsym: the stub that is exported, and finding what is behind it. */
#include "hooks/cuda/reach/dlsym.h"

#include "hooks/cuda/reach/early.h"
#include "hooks/cuda/reach/got.h"
#include "hooks/cuda/reach/substitute.h"
#include "shim/atomic.h"
#include "shim/elf.h"
#include "shim/identity.h"

#if defined(__x86_64__) || defined(__aarch64__)

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
		ts_got_look();
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

void ts_dlsym_begin(void)
{
	ts_got_begin();
	ts_write_relaxed(&ts_dlsym_active, 1);
}

#else

/* Programs that find the driver through dlsym are not reached on this machine. */
void ts_dlsym_begin(void)
{
}

#endif
