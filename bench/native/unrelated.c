/* SPDX-License-Identifier: MIT */
/*
 * What one call costs that the library exports but has nothing to do with: libjpeg's calls
 * for both directions, on a compressor, opening a file while no sample is made, asking about
 * one by descriptor and by path, removing one, reading a directory, looking a symbol up, and
 * opening and closing a file that is there (this program's own).  Prints nanoseconds per call
 * as JSON, the smallest of many short series, for every interruption only makes a series
 * longer.
 */
#include "common.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jpeglib.h>

#define CALLS  20000
#define OPENS  2000 /* each a system call */
#define SERIES 200

static const char *own_name;
static DIR *stream;

static double best_of(void (*call)(j_common_ptr), j_common_ptr object, int calls)
{
	double best = 1e9;

	for (int series = 0; series < SERIES; series++) {
		uint64_t start = now(CLOCK_MONOTONIC);
		for (int i = 0; i < calls; i++)
			call(object);
		double each = (double)(now(CLOCK_MONOTONIC) - start) / calls;
		if (each < best)
			best = each;
	}
	return best;
}

/* These fail as early as they can: what a file system does would only hide the difference. */
static void call_open(j_common_ptr unused)
{
	(void)!open("", O_RDONLY);
}

static void call_fopen(j_common_ptr unused)
{
	(void)!fopen("", "?");
}

static void call_fstat(j_common_ptr unused)
{
	struct stat status;

	(void)!fstat(-1, &status);
}

static void call_stat(j_common_ptr unused)
{
	struct stat status;

	(void)!stat("", &status);
}

/* What readdir(3) does but for the entries: find the stream, take its lock. */
static void call_telldir(j_common_ptr unused)
{
	(void)!telldir(stream);
}

static void call_dlsym(j_common_ptr unused)
{
	(void)!dlsym(RTLD_DEFAULT, "getpid");
}

static void call_file(j_common_ptr unused)
{
	int fd = open(own_name, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		die(own_name);
	close(fd);
}

int main(int argc, char **argv)
{
	struct jpeg_compress_struct cinfo;
	struct jpeg_error_mgr errors;

	own_name = argv[0];
	stream = opendir("/");
	if (!stream)
		die("/");
	cinfo.err = jpeg_std_error(&errors);
	jpeg_create_compress(&cinfo);
	double abort_ns = best_of(jpeg_abort, (j_common_ptr)&cinfo, CALLS);
	/* Destroying what is destroyed already is legal and does next to nothing. */
	jpeg_destroy((j_common_ptr)&cinfo);
	double destroy_ns = best_of(jpeg_destroy, (j_common_ptr)&cinfo, CALLS);
	double open_ns = best_of(call_open, NULL, OPENS);
	double fopen_ns = best_of(call_fopen, NULL, CALLS);
	double fstat_ns = best_of(call_fstat, NULL, OPENS);
	double stat_ns = best_of(call_stat, NULL, OPENS);
	double telldir_ns = best_of(call_telldir, NULL, CALLS);
	double dlsym_ns = best_of(call_dlsym, NULL, OPENS);
	double file_ns = best_of(call_file, NULL, OPENS);
	printf("{\"jpeg_abort\": %.2f, \"jpeg_destroy\": %.2f, \"open\": %.2f, "
	       "\"fopen\": %.2f, \"fstat\": %.2f, \"stat\": %.2f, "
	       "\"telldir\": %.2f, \"dlsym\": %.2f, \"file\": %.2f}\n",
		abort_ns, destroy_ns, open_ns, fopen_ns, fstat_ns, stat_ns, telldir_ns,
		dlsym_ns, file_ns);
	return 0;
}
