/* SPDX-License-Identifier: MIT */
/* A plug-in that is linked to libjpeg; plugger.c loads it. */
#include "victim.h"

#include <stdlib.h>

__attribute__((visibility("default"))) void plugin_decode(const char *path);

void plugin_decode(const char *path)
{
	struct victim_input input;
	struct victim_errors errors;
	uint64_t hash = 0;

	victim_input_load(&input, path);
	int r = victim_decode_memory(&input, &errors, &hash);
	printf("%s %016llx %s\n", victim_base_name(path), (unsigned long long)hash,
		r ? errors.text : "");
	victim_input_free(&input);
}
