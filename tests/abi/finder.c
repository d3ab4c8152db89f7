/* SPDX-License-Identifier: MIT */
/*
 * finder [LIBRARY]: prints what dlsym finds, from the program and from a library that is
 * loaded privately; with tsshim in front of it the lines must be the same.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

extern int finder_picked(void) __attribute__((weak)); /* finder_ifunc.c */
extern void finder_neighbour_report(void) __attribute__((weak));

/* An address as the file that it lies in and the symbol there: the same in every run. */
static void show(const char *what, void *address)
{
	Dl_info info = {0};
	const char *error = address ? NULL : dlerror();
	if (!address || !dladdr(address, &info)) {
		printf("%s: %s\n", what, error ? error : "nothing");
		return;
	}
	const char *slash = strrchr(info.dli_fname, '/');
	printf("%s: %s in %s\n", what, info.dli_sname ? info.dli_sname : "?",
		slash ? slash + 1 : info.dli_fname);
}

static void show_scopes(void)
{
	static const char *const names[] = {"getppid", "malloc", "cuInit", "cuGetProcAddress",
		"cuGetProcAddress_v2", "cuDeviceGetCount", "finder_private",
		"no_such_function"};
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		show("default", dlsym(RTLD_DEFAULT, names[i]));
		show("next", dlsym(RTLD_NEXT, names[i]));
	}
}

static void show_handles(void)
{
	static const char *const libraries[] = {"libc.so.6", "libm.so.6"};
	static const char *const names[] = {
		"getppid", "cos", "cuMemcpyHtoD_v2", "cuda", "cudnnCreate", "curl_easy_init"};
	for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++) {
		void *handle = dlopen(libraries[i], RTLD_NOW);
		for (size_t k = 0; handle && k < sizeof(names) / sizeof(names[0]); k++)
			show(libraries[i], dlsym(handle, names[k]));
	}
	void *program = dlopen(NULL, RTLD_NOW);
	show("program", dlsym(program, "getppid"));
	show("program", dlsym(program, "cuInit"));
	printf("after an error: %s\n", dlsym(program, "no_such_function") ? "?" : dlerror());
	printf("and again: %s\n", dlerror() ? "?" : "none");
}

int main(int argc, char **argv)
{
	show_scopes();
	show_handles();
	void *plugin = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
	void (*report)(void) = NULL;
	if (plugin)
		*(void **)&report = dlsym(plugin, "finder_plugin_report");
	if (report)
		report();
	if (argc > 1 && !report)
		printf("no plugin: %s\n", dlerror());
	if (finder_picked)
		printf("picked %d\n", finder_picked());
	printf("parent %d\n", getppid() > 0);
	if (finder_neighbour_report)
		finder_neighbour_report();
	return 0;
}
