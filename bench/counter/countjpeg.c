/* SPDX-License-Identifier: MIT */
/*
 * Counts what a real libjpeg really decodes, for a witness that shares no code with tsshim.
 *
 * Built by tsbench/native.py into a library of the real one's SONAME that exports all of its
 * names (trampolines generated into countjpeg-names.h) and put first by LD_LIBRARY_PATH.  So
 * whoever looks for the caller's libjpeg, by whatever means, finds this one.
 *
 * COUNTJPEG_FILE names a file of COUNTJPEG_SLOTS counters, COUNTJPEG_SLOT the one to use.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <jpeglib.h>

#define COUNTJPEG_SLOTS 512

/* COUNTJPEG_NAMES(X): every function of the real library, but for those defined below. */
#include "countjpeg-names.h"

static void (*real_create)(j_decompress_ptr, int, size_t);
static void *(*real_alloc_small)(j_common_ptr, int, size_t);
static JDIMENSION (*real_read_scanlines)(j_decompress_ptr, JSAMPARRAY, JDIMENSION);
static boolean (*real_finish_decompress)(j_decompress_ptr);

struct counters {
	_Atomic uint64_t begun; /* decodes that delivered a first row */
	_Atomic uint64_t finished;
};

static struct counters *counters;

#define X(name) void *countjpeg_real_##name __attribute__((visibility("hidden")));
COUNTJPEG_NAMES(X)
#undef X

/* A jump that touches no argument register and no stack: right for any signature. */
#if defined(__x86_64__)
#define TRAMPOLINE(name)                                                            \
	__asm__(".text\n.globl " #name "\n.type " #name ",@function\n" #name        \
		":\n\tendbr64\n\tjmp *countjpeg_real_" #name "(%rip)\n.size " #name \
		",.-" #name);
#elif defined(__aarch64__)
#define TRAMPOLINE(name)                                                                     \
	__asm__(".text\n.globl " #name "\n.type " #name ",%function\n" #name                 \
		":\n\tbti c\n\tadrp x16, countjpeg_real_" #name                              \
		"\n\tldr x16, [x16, :lo12:countjpeg_real_" #name "]\n\tbr x16\n.size " #name \
		",.-" #name);
#else
#error "no trampoline for this processor"
#endif
COUNTJPEG_NAMES(TRAMPOLINE)

static void *need(void *library, const char *name)
{
	void *symbol = dlsym(library, name);

	if (symbol == NULL) {
		fprintf(stderr, "countjpeg: the real libjpeg has no %s\n", name);
		abort();
	}
	return symbol;
}

__attribute__((constructor)) static void open_real(void)
{
	const char *path = getenv("COUNTJPEG_FILE");
	const char *slot = getenv("COUNTJPEG_SLOT");
	void *library = dlopen(COUNTJPEG_REAL, RTLD_NOW | RTLD_LOCAL);

	if (library == NULL) {
		fprintf(stderr, "countjpeg: %s\n", dlerror());
		abort();
	}
#define X(name) countjpeg_real_##name = need(library, #name);
	COUNTJPEG_NAMES(X)
#undef X
	real_create =
		(void (*)(j_decompress_ptr, int, size_t))need(library, "jpeg_CreateDecompress");
	real_read_scanlines = (JDIMENSION(*)(j_decompress_ptr, JSAMPARRAY, JDIMENSION))need(
		library, "jpeg_read_scanlines");
	real_finish_decompress =
		(boolean(*)(j_decompress_ptr))need(library, "jpeg_finish_decompress");
	if (path == NULL || slot == NULL)
		return;
	int fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return;
	void *map = mmap(NULL, COUNTJPEG_SLOTS * sizeof(*counters), PROT_READ | PROT_WRITE,
		MAP_SHARED, fd, 0);
	close(fd);
	if (map != MAP_FAILED)
		counters = (struct counters *)map + atoi(slot) % COUNTJPEG_SLOTS;
}

static void *alloc_small(j_common_ptr cinfo, int pool, size_t bytes)
{
	return real_alloc_small(cinfo, pool, bytes);
}

/*
 * Whoever asks an object's memory manager which library made it must find this one, or the
 * calls that follow would go round the counters.
 */
void jpeg_CreateDecompress(j_decompress_ptr cinfo, int version, size_t bytes)
{
	real_create(cinfo, version, bytes);
	if (cinfo->mem == NULL || cinfo->mem->alloc_small == alloc_small)
		return;
	real_alloc_small = cinfo->mem->alloc_small;
	cinfo->mem->alloc_small = alloc_small;
}

JDIMENSION jpeg_read_scanlines(j_decompress_ptr cinfo, JSAMPARRAY rows, JDIMENSION max)
{
	JDIMENSION done = real_read_scanlines(cinfo, rows, max);

	if (counters != NULL && done > 0 && cinfo->output_scanline == done)
		counters->begun++;
	return done;
}

boolean jpeg_finish_decompress(j_decompress_ptr cinfo)
{
	boolean done = real_finish_decompress(cinfo);

	if (counters != NULL && done)
		counters->finished++;
	return done;
}
