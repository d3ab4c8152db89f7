/* SPDX-License-Identifier: MIT */
/*
 * Other libraries that call dlsym; one of the three by -DFINDER_...
 *
 * NEIGHBOUR  a preload that stands in front of getppid and finds the next one in its
 *            constructor, and again later: never itself
 * PLUGIN     loaded privately, looks for what only its own scope has
 * IFUNC      a function whose address is decided by what dlsym finds, at relocation time
 */
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

#if defined(FINDER_NEIGHBOUR)

typedef pid_t parent_call(void);

static parent_call *early;
static int calls;

__attribute__((constructor)) static void find(void)
{
	*(void **)&early = dlsym(RTLD_NEXT, "getppid");
}

pid_t getppid(void)
{
	parent_call *next;
	*(void **)&next = dlsym(RTLD_NEXT, "getppid");
	calls++;
	return next == getppid || next != early ? -1 : next();
}

void finder_neighbour_report(void);

void finder_neighbour_report(void)
{
	Dl_info info = {0};
	int known = early && dladdr(*(void **)&early, &info) != 0;
	printf("neighbour: %d calls, next is %s, others see %s\n", calls,
		known ? info.dli_sname : "nothing",
		dlsym(RTLD_DEFAULT, "getppid") == (void *)getppid ? "it" : "something else");
}

#elif defined(FINDER_PLUGIN)

int finder_private(void);
void finder_plugin_report(void);

int finder_private(void)
{
	return 7;
}

void finder_plugin_report(void)
{
	printf("plugin: own scope %s, next %s\n",
		dlsym(RTLD_DEFAULT, "finder_private") ? "found" : "not found",
		dlsym(RTLD_NEXT, "finder_private") ? "found" : "not found");
}

#elif defined(FINDER_IFUNC)

int finder_picked(void);

static int with_process(void)
{
	return 1;
}

static int without(void)
{
	return 2;
}

/* Some compilers do not see that an ifunc uses it. */
__attribute__((used)) static int (*pick(void))(void)
{
	return dlsym(RTLD_DEFAULT, "getpid") ? with_process : without;
}

int finder_picked(void) __attribute__((ifunc("pick")));

#endif
