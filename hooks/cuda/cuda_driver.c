/* SPDX-License-Identifier: MIT */
/* The driver library of this process: which object it is, and its functions. */
#include "hooks/cuda/cuda_driver.h"

#include "shim/log.h"
#include "shim/scratch.h"

#include <dlfcn.h>
#include <limits.h>
#include <string.h>

#define DRIVER "libcuda.so"

struct ts_cuda ts_cuda;

/* The functions are those of the object that this address lies in; 0 = of none yet. */
static _Atomic uintptr_t bound;

static bool begins_with_driver(const char *name)
{
	const char *slash = strrchr(name, '/');
	return strncmp(slash ? slash + 1 : name, DRIVER, sizeof(DRIVER) - 1) == 0;
}

bool ts_cuda_is_driver(const struct ts_elf_object *object)
{
	return begins_with_driver(object->path) ||
	       (object->soname && begins_with_driver(object->soname));
}

/* ---- which library ---------------------------------------------------------------------- */

static void fill_in(const struct ts_elf_object *object)
{
#define TS_X(symbol, ...)                 \
	ts_write_relaxed(&ts_cuda.symbol, \
		(__typeof__(TS_CUDA_DRIVER(symbol)))ts_elf_function(object, #symbol));
	TS_CUDA_HOOKED(TS_X)
	TS_CUDA_USED(TS_X)
#undef TS_X
}

bool ts_cuda_bind(const struct ts_elf_object *object)
{
	struct ts_elf_object old;
	uintptr_t address = (uintptr_t)object->dynamic;
	uintptr_t now = ts_load_acquire(&bound); /* pairs with the release below */
	if (now == address)
		return true;
	if (now && ts_elf_containing(now, &old) && (uintptr_t)old.dynamic == now &&
		ts_cuda_is_driver(&old))
		return false;
	fill_in(object);
	ts_write_release(&bound, address);
	return true;
}

typedef void *dlopen_call(const char *path, int flags);

struct pin {
	dlopen_call *open;
	uintptr_t dynamic; /* of the driver */
	char path[PATH_MAX];
};

/* The first dlopen, as any call would reach it, and the path that the driver came by. */
static bool look_in(const struct ts_elf_object *object, void *data)
{
	struct pin *pin = data;
	if (!pin->open)
		pin->open = (dlopen_call *)ts_elf_function(object, "dlopen");
	if ((uintptr_t)object->dynamic == pin->dynamic)
		(void)ts_format(pin->path, sizeof(pin->path), "%s", object->path);
	return false;
}

bool ts_cuda_pin(void)
{
	struct pin *pin TS_SCRATCH = ts_scratch();
	struct ts_elf_object pinned;
	if (!pin)
		return false;
	pin->open = NULL;
	pin->dynamic = ts_load_relaxed(&bound);
	pin->path[0] = '\0';
	(void)ts_elf_each(look_in, pin);
	/* Its symbol is too new for old C libraries where it is in libc.so.6 (tests/abi). */
	return pin->open && pin->path[0] && pin->open(pin->path, RTLD_LAZY | RTLD_NOLOAD) &&
	       /* Still there, and no other of that path. */
	       ts_elf_containing(pin->dynamic, &pinned) &&
	       (uintptr_t)pinned.dynamic == pin->dynamic && strcmp(pinned.path, pin->path) == 0;
}

bool ts_cuda_is_complete(void)
{
	bool all = TS_CUDA_DRIVER(cuMemAlloc_v2) != NULL;
#define TS_X(symbol, ...) all &= TS_CUDA_DRIVER(symbol) != NULL;
	TS_CUDA_USED(TS_X)
	TS_CUDA_BACK(TS_X)
#undef TS_X
	return all;
}
