/* SPDX-License-Identifier: MIT */
/*
 * stacks HOW WHAT PATH [BYTES]: one call of the program's first, and a second one, on a stack
 * of so many bytes (16 KiB): of a thread, of a handler of signals, of a coroutine.  Prints what
 * came of it, and behind a '~' how much of the stack was used, which is painted.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <ucontext.h>
#include <unistd.h>

#include <dirent.h>
#include <jpeglib.h>

#define PAGE  4096u
#define PAINT 0xa5

static const char *path;
static uint64_t sum;
static unsigned char *input, row[65536 * 3];
static size_t input_bytes;

static void add(const void *data, size_t bytes)
{
	for (const unsigned char *at = data; bytes > 0; at++, bytes--)
		sum = (sum ^ *at) * UINT64_C(0x100000001b3);
}

/* ---- what is called --------------------------------------------------------------------- */

static void read_all(int fd)
{
	static char buffer[65536];
	ssize_t got;
	while ((got = read(fd, buffer, sizeof(buffer))) > 0)
		add(buffer, (size_t)got);
	close(fd);
}

static void do_open(void)
{
	read_all(open(path, O_RDONLY));
}

static void do_fopen(void)
{
	FILE *stream = fopen(path, "r");
	read_all(dup(fileno(stream)));
	fclose(stream);
}

/* What only the original can do. */
static void do_lock(void)
{
	struct flock lock = {.l_type = F_RDLCK};
	int fd = open(path, O_RDONLY);
	int r = fcntl(fd, F_SETLK, &lock);
	add(&r, sizeof(r));
	read_all(fd);
}

static void do_stat(void)
{
	static struct stat st;
	int r = stat(path, &st);
	add(&r, sizeof(r));
	add(&st.st_ino, sizeof(st.st_ino));
	add(&st.st_size, sizeof(st.st_size));
}

static void do_list(void)
{
	static char directory[PAGE];
	uint64_t names = 0, before = sum;
	snprintf(directory, sizeof(directory), "%s", path);
	*strrchr(directory, '/') = '\0';
	DIR *stream = opendir(directory);
	for (struct dirent *entry; (entry = readdir(stream)) != NULL;) {
		sum = 1;
		add(entry->d_name, strlen(entry->d_name));
		names += sum; /* in any order */
	}
	closedir(stream);
	sum = before;
	add(&names, sizeof(names));
}

static void do_decode(void)
{
	static struct jpeg_decompress_struct cinfo;
	static struct jpeg_error_mgr errors;
	JSAMPROW rows = row;
	cinfo.err = jpeg_std_error(&errors);
	jpeg_create_decompress(&cinfo);
	jpeg_mem_src(&cinfo, input, input_bytes);
	jpeg_read_header(&cinfo, TRUE);
	jpeg_start_decompress(&cinfo);
	while (cinfo.output_scanline < cinfo.output_height) {
		jpeg_read_scanlines(&cinfo, &rows, 1);
		add(row, (size_t)cinfo.output_width * (size_t)cinfo.output_components);
	}
	jpeg_finish_decompress(&cinfo);
	jpeg_destroy_decompress(&cinfo);
}

static const struct call {
	const char *name;
	void (*run)(void);
} calls[] = {
	{"open", do_open},
	{"fopen", do_fopen},
	{"lock", do_lock},
	{"stat", do_stat},
	{"list", do_list},
	{"decode", do_decode},
};

static void (*run)(void);

static void twice(void)
{
	run();
	run();
}

/* ---- where ------------------------------------------------------------------------------ */

static void *in_thread(void *data)
{
	twice();
	return data;
}

static void in_handler(int number)
{
	(void)number;
	twice();
}

static void on_thread(void *stack, size_t bytes)
{
	pthread_attr_t attributes;
	pthread_t thread;
	pthread_attr_init(&attributes);
	if (pthread_attr_setstack(&attributes, stack, bytes) != 0 ||
		pthread_create(&thread, &attributes, in_thread, NULL) != 0)
		exit(2);
	pthread_join(thread, NULL);
}

static void on_handler(void *stack, size_t bytes)
{
	stack_t place = {.ss_sp = stack, .ss_size = bytes};
	struct sigaction action = {.sa_handler = in_handler, .sa_flags = SA_ONSTACK};
	if (sigaltstack(&place, NULL) < 0 || sigaction(SIGUSR1, &action, NULL) < 0)
		exit(2);
	raise(SIGUSR1);
}

static void on_coroutine(void *stack, size_t bytes)
{
	static ucontext_t here, there;
	getcontext(&there);
	there.uc_stack.ss_sp = stack;
	there.uc_stack.ss_size = bytes;
	there.uc_link = &here;
	makecontext(&there, twice, 0);
	swapcontext(&here, &there);
}

static void load(void)
{
	struct stat st;
	int fd = (int)openat(AT_FDCWD, path, O_RDONLY);
	if (fd < 0 || fstat(fd, &st) < 0)
		exit(2);
	input = malloc((size_t)st.st_size);
	input_bytes = (size_t)read(fd, input, (size_t)st.st_size);
	close(fd);
}

int main(int count, char **words)
{
	size_t bytes = count > 4 ? (size_t)atol(words[4]) : 4 * PAGE, free_bytes = 0;
	if (count < 4)
		return 2;
	path = words[3];
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		if (strcmp(calls[i].name, words[2]) == 0)
			run = calls[i].run;
	if (!run)
		return 2;
	if (run == do_decode)
		load();
	unsigned char *map = mmap(
		NULL, bytes + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (map == MAP_FAILED || mprotect(map, PAGE, PROT_NONE) < 0)
		return 2;
	memset(map + PAGE, PAINT, bytes);
	if (strcmp(words[1], "thread") == 0)
		on_thread(map + PAGE, bytes);
	else if (strcmp(words[1], "handler") == 0)
		on_handler(map + PAGE, bytes);
	else
		on_coroutine(map + PAGE, bytes);
	while (free_bytes < bytes && map[PAGE + free_bytes] == PAINT)
		free_bytes++;
	printf("%s %s %016llx\n", words[1], words[2], (unsigned long long)sum);
	printf("~ %zu\n", bytes - free_bytes);
	return 0;
}
