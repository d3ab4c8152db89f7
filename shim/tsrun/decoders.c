/* SPDX-License-Identifier: MIT */
/* Which decoders of pictures a process has loaded, as its memory map shows. */
#include "shim/tsrun/decoders.h"
#include "shim/tsrun/library.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *base_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static bool begins(const char *text, const char *start)
{
	return strncmp(text, start, strlen(start)) == 0;
}

/*
 * A wheel has its copy under a name of its own: libjpeg-1b553e2d.so.62.4.0.  The plain names
 * are followed by ".so".
 */
static bool is_libjpeg(const char *path)
{
	const char *name = base_of(path);

	return begins(name, "libjpeg.") || begins(name, "libjpeg-") ||
	       begins(name, "libturbojpeg.") || begins(name, "libturbojpeg-");
}

/* To look into each library takes seconds; these are the ones that people use. */
static bool may_have_one(const char *path)
{
	static const char *const names[] = {"cv2.", "libtensorflow", "libdali",
		"_pywrap_tensorflow", "libopencv_imgcodecs", "libopencv_world", "_imaging.",
		"libffcv"};

	for (size_t i = 0; i < TS_ARRAY_SIZE(names); i++)
		if (begins(base_of(path), names[i]))
			return true;
	return false;
}

static bool has(char (*list)[PATH_MAX], uint32_t count, const char *path)
{
	for (uint32_t i = 0; i < count; i++)
		if (strcmp(list[i], path) == 0)
			return true;
	return false;
}

static void add(char (*list)[PATH_MAX], uint32_t *count, const char *path)
{
	if (*count < TS_DECODERS_MAX && !has(list, *count, path))
		(void)snprintf(list[(*count)++], PATH_MAX, "%s", path);
}

static void look_at(const char *path, struct ts_decoders *decoders)
{
	struct ts_inspection inspection = {.decoder = false};

	if (begins(base_of(path), "libtsshim"))
		decoders->preloaded = true;
	else if (is_libjpeg(path))
		add(decoders->shared, &decoders->shared_count, path);
	else if (may_have_one(path) && !has(decoders->inside, decoders->static_count, path) &&
		 ts_library_inspect(path, &inspection) == 0 && inspection.decoder)
		add(decoders->inside, &decoders->static_count, path);
}

void ts_decoders_find(int pid, struct ts_decoders *ret_decoders)
{
	char path[64], last[PATH_MAX] = "";
	char *line = NULL;
	size_t room = 0;

	memset(ret_decoders, 0, sizeof(*ret_decoders));
	(void)snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	FILE *maps = fopen(path, "re");
	if (!maps)
		return;
	while (getline(&line, &room, maps) >= 0) {
		ret_decoders->known = true;
		char *file = strchr(line, '/');
		if (!file)
			continue;
		file[strcspn(file, "\n")] = '\0';
		/* Each library is there some five times in a row. */
		if (strcmp(file, last) == 0 || strlen(file) >= sizeof(last))
			continue;
		memcpy(last, file, strlen(file) + 1);
		look_at(file, ret_decoders);
	}
	free(line);
	(void)fclose(maps);
}
