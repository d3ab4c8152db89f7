/* SPDX-License-Identifier: MIT */
/*
 * Counts what a real libjpeg really decodes, for a witness that shares no code with tsshim.
 *
 * Linked by tsbench/native.py with the objects of the system's static libjpeg, in which the
 * two functions below were renamed to real_*, into a library of the shared one's SONAME and
 * exports.  Put first by LD_LIBRARY_PATH it is an ordinary libjpeg for everybody: whoever
 * calls it, however it was found, is counted.
 *
 * COUNTJPEG_FILE names a file of COUNTJPEG_SLOTS counters, COUNTJPEG_SLOT the one to use.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <jpeglib.h>

#define COUNTJPEG_SLOTS 512

JDIMENSION real_jpeg_read_scanlines(j_decompress_ptr cinfo, JSAMPARRAY rows, JDIMENSION max);
boolean real_jpeg_finish_decompress(j_decompress_ptr cinfo);

struct counters {
	_Atomic uint64_t begun; /* decodes that delivered a first row */
	_Atomic uint64_t finished;
};

static struct counters *counters;

/* Static libraries are compiled for programs and expect this symbol in the same object. */
__attribute__((visibility("hidden"))) FILE *countjpeg_stderr;

__attribute__((constructor)) static void open_counters(void)
{
	const char *path = getenv("COUNTJPEG_FILE");
	const char *slot = getenv("COUNTJPEG_SLOT");

	countjpeg_stderr = stderr;
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

JDIMENSION jpeg_read_scanlines(j_decompress_ptr cinfo, JSAMPARRAY rows, JDIMENSION max)
{
	JDIMENSION done = real_jpeg_read_scanlines(cinfo, rows, max);

	if (counters != NULL && done > 0 && cinfo->output_scanline == done)
		counters->begun++;
	return done;
}

boolean jpeg_finish_decompress(j_decompress_ptr cinfo)
{
	boolean done = real_jpeg_finish_decompress(cinfo);

	if (counters != NULL && done)
		counters->finished++;
	return done;
}
