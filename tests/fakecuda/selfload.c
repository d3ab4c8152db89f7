/* SPDX-License-Identifier: MIT */
/*
 * Two habits of real drivers that have hung or killed programs under a hooked dlsym, on demand
 * by FAKECUDA_RESOLVE_THROUGH_SELF:
 *
 *   1  as drivers from 570 on: dlsym of "cuGetExportTable" in itself while it is being loaded,
 *      from its constructor, so with the loader's lock held
 *   2  as WSL's: cuInit looks up "cuInit" by dlsym and calls what it finds
 */
#include "driver.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static bool is_set(const char *value)
{
	const char *text = getenv("FAKECUDA_RESOLVE_THROUGH_SELF");
	return text && strcmp(text, value) == 0;
}

/* A handle of this very library; what it is called does not matter. */
static void *self(void)
{
	Dl_info info;
	if (dladdr((void *)is_set, &info) == 0)
		fake_die("dladdr does not know its caller");
	void *handle = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
	if (!handle)
		fake_die("cannot find myself: %s", dlerror());
	return handle;
}

__attribute__((constructor)) static void look_for_export_table(void)
{
	if (!is_set("1"))
		return;
	void *handle = self();
	if (!dlsym(handle, "cuGetExportTable"))
		fake_die("dlsym does not find my cuGetExportTable");
	dlclose(handle);
}

void fake_selfload_init(void)
{
	static _Thread_local int depth;
	if (fake_number(FAKE_RESOLVE_THROUGH_SELF) != 2 || depth++ > 0)
		return;
	void *handle = self();
	CUresult (*init)(unsigned);
	*(void **)&init = dlsym(handle, "cuInit");
	if (!init || init(0) != CUDA_SUCCESS)
		fake_die("cuInit found by dlsym does not work");
	dlclose(handle);
	depth = 0;
}
