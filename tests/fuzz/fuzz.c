/* SPDX-License-Identifier: MIT */
/* A private folder of shared memory, removed when the fuzz target ends. */
#include "fuzz.h"

#include <string.h>
#include <unistd.h>

/* In memory where possible: each input makes two objects. */
static char folder[64];

static void remove_folder(void)
{
	rmdir(folder);
}

void fuzz_private_shm(void)
{
	if (folder[0])
		return;
	strcpy(folder, "/dev/shm/tsshim-fuzz.XXXXXX");
	if (!mkdtemp(folder)) {
		strcpy(folder, "/tmp/tsshim-fuzz.XXXXXX");
		FUZZ_CHECK(mkdtemp(folder) != NULL);
	}
	FUZZ_CHECK(setenv("TSSHIM_TEST_SHM", folder, 1) == 0);
	atexit(remove_folder);
}
