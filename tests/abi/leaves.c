/* SPDX-License-Identifier: MIT */
/*
 * leaves: how much stack functions of the C library use, each at its first call in a thread:
 * one line "NAME BYTES" each, for stack.py.  Measured by painting, as no compiler tells.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define STACK_BYTES (256u << 10)
#define PAINTED     (128u << 10)
#define PAINT       UINT64_C(0x7061696e74656421)

static char text[4096] = "a word, /and/a/path: more", other[4096];
static void *volatile sink;
static volatile long number;
static void *child_stack;

static int visit(struct dl_phdr_info *info, size_t bytes, void *data)
{
	(void)info;
	(void)bytes;
	(void)data;
	return 0;
}

static int child(void *data)
{
	(void)data;
	return 0;
}

static void *thread(void *data)
{
	return data;
}

static void nothing(void)
{
}

/* The largest of what the library asks an allocator for, and the smallest. */
static void allocate(void)
{
	char *small = malloc(48), *large = malloc(4u << 20);
	small = realloc(small, 100000);
	sink = small;
	free(large);
	free(small);
	free(calloc(1, 200000));
}

static void mask(void)
{
	static sigset_t set, old;
	const struct timespec now = {0, 0};
	sigemptyset(&set);
	sigfillset(&old);
	sigaddset(&set, SIGPIPE);
	sigdelset(&old, SIGPIPE);
	number = sigismember(&set, SIGPIPE) + sigpending(&old) + sigtimedwait(&set, NULL, &now);
	sigprocmask(SIG_SETMASK, NULL, &old);
}

static void system_calls(void)
{
	static struct stat st;
	static struct rlimit limit;
	static struct rusage use;
	static gid_t groups[256];
	static struct utsname name;
	void *map =
		mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	madvise(map, 4096, MADV_NORMAL);
	mprotect(map, 4096, PROT_READ);
	map = mremap(map, 8192, 16384, MREMAP_MAYMOVE);
	munmap(map, 16384);
	number = fstat(0, &st) + getrlimit(RLIMIT_AS, &limit) + getgroups(256, groups);
	number = geteuid() + getegid() + getpid() + getppid() + uname(&name);
	number = ioctl(0, 0, NULL) + linkat(-1, "", -1, "", 0) + prctl(PR_GET_DUMPABLE);
	number = syscall(SYS_openat, AT_FDCWD, "/nowhere", O_RDONLY);
	number = waitpid(-1, NULL, WNOHANG) + getrusage(RUSAGE_SELF, &use);
}

static void words(void)
{
	number = (long)strlen(text) + strcmp(text, other) + strncmp(text, other, 9);
	number = (long)strnlen(text, 9) + memcmp(text, other, sizeof(text));
	number = (long)strspn(text, "abc") + (long)strcspn(text, "xyz");
	sink = strchr(text, ':');
	sink = strrchr(text, '/');
	sink = memchr(text, ':', sizeof(text));
	memcpy(other, text, sizeof(text));
	memmove(other + 1, other, sizeof(other) - 1);
	memset(other, 0, sizeof(other));
	sink = getenv("PATH");
}

static void searches(void)
{
	sink = strstr(text, "path");
	sink = memmem(text, sizeof(text), "/tsshim.", 8);
}

static void times(void)
{
	struct timespec now;
	clockid_t clock;
	number = clock_gettime(CLOCK_MONOTONIC, &now) + clock_getcpuclockid(0, &clock);
}

static void sizes(void)
{
	number = sysconf(_SC_PAGESIZE) + sysconf(_SC_PHYS_PAGES) + sysconf(_SC_CLK_TCK);
}

static void objects(void)
{
	dl_iterate_phdr(visit, NULL);
}

static void streams(void)
{
	FILE *stream = fdopen(open("/dev/null", O_RDONLY), "r");
	DIR *directory = opendir("/");
	number = fileno(stream) + dirfd(directory);
	closedir(directory);
	fclose(stream);
}

static void clones(void)
{
	int pid = clone(child, (char *)child_stack + 65536, CLONE_VM | CLONE_VFORK, NULL);
	number = syscall(SYS_wait4, pid, NULL, __WCLONE, NULL);
}

static void threads(void)
{
	pthread_t one;
	pthread_attr_t attributes;
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_JOINABLE);
	pthread_attr_setstacksize(&attributes, 1u << 20);
	if (pthread_create(&one, &attributes, thread, NULL) == 0)
		pthread_join(one, NULL);
	pthread_attr_destroy(&attributes);
}

static void locks(void)
{
	pthread_mutex_t mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
	pthread_mutex_lock(&mutex);
	pthread_mutex_unlock(&mutex);
}

static void at_fork(void)
{
	number = pthread_atfork(nothing, nothing, nothing);
}

static void loaded(void)
{
	sink = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
}

static void environment(void)
{
	setenv("TSSHIM_LEAVES", text, 1);
}

static void real_path(void)
{
	sink = realpath("/proc/self/cwd/.", other);
}

static const struct leaf {
	const char *names;
	void (*call)(void);
} leaves[] = {
	{"malloc calloc realloc free", allocate},
	{"sigemptyset sigfillset sigaddset sigdelset sigismember sigpending sigtimedwait "
	 "sigprocmask",
		mask},
	{"mmap madvise mprotect mremap munmap fstat getrlimit getrusage getgroups geteuid "
	 "getegid "
	 "getpid getppid uname ioctl linkat prctl syscall waitpid __errno_location _exit",
		system_calls},
	{"strlen strcmp strncmp strnlen memcmp strspn strcspn strchr strrchr memchr memcpy "
	 "memmove memset getenv",
		words},
	{"strstr memmem", searches},
	{"clock_gettime clock_getcpuclockid", times},
	{"sysconf", sizes},
	{"dl_iterate_phdr", objects},
	{"fdopen fileno dirfd", streams},
	{"clone", clones},
	{"pthread_create pthread_attr_init pthread_attr_destroy pthread_attr_setdetachstate "
	 "pthread_attr_setstacksize",
		threads},
	{"pthread_mutex_lock pthread_mutex_unlock", locks},
	{"pthread_atfork", at_fork},
	{"dlopen", loaded},
	{"setenv", environment},
	{"realpath", real_path},
};

/* What is saved in the frame below lies there: counted as used. */
#define SAVED 96u

/* All below this frame is painted; the lowest that is not, afterwards. */
static __attribute__((noinline)) size_t measure(void (*call)(void))
{
	volatile uint64_t *top = (uint64_t *)__builtin_frame_address(0) - SAVED / sizeof(*top);
	volatile uint64_t *bottom = top - PAINTED / sizeof(*top), *at;
	for (at = bottom; at < top; at++)
		*at = PAINT;
	call();
	for (at = bottom; at < top && *at == PAINT; at++)
		;
	return (size_t)((top - at) * (long)sizeof(*top)) + SAVED;
}

static void *probe(void *data)
{
	const struct leaf *leaf = data;
	return (void *)measure(leaf->call);
}

int main(void)
{
	pthread_attr_t attributes;

	child_stack = malloc(65536);
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	for (size_t i = 0; i < sizeof(leaves) / sizeof(leaves[0]); i++) {
		pthread_t one;
		void *bytes;
		char names[256], *rest = names;
		if (pthread_create(&one, &attributes, probe, (void *)&leaves[i]) != 0 ||
			pthread_join(one, &bytes) != 0)
			return 1;
		snprintf(names, sizeof(names), "%s", leaves[i].names);
		for (char *name; (name = strtok_r(rest, " ", &rest)) != NULL;)
			printf("%s %zu\n", name, (size_t)bytes);
	}
	return 0;
}
