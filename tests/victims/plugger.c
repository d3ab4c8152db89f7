/* SPDX-License-Identifier: MIT */
/*
 * plugger local|global|deepbind PLUGIN FILE...: decode through a plug-in.  This program does
 * not know libjpeg, so the plug-in's copy is reached through the plug-in's own scope only.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
	int flags = RTLD_NOW;
	if (argc < 4)
		return 2;
	if (strcmp(argv[1], "global") == 0)
		flags |= RTLD_GLOBAL;
	if (strcmp(argv[1], "deepbind") == 0)
		flags |= RTLD_DEEPBIND;
	/* Twice, with the library unloaded in between: its addresses are used again. */
	for (int turn = 0; turn < 2; turn++) {
		void *plugin = dlopen(argv[2], flags);
		if (!plugin) {
			fprintf(stderr, "plugger: %s\n", dlerror());
			return 2;
		}
		void (*decode)(const char *path);
		*(void **)&decode = dlsym(plugin, "plugin_decode");
		for (int i = 3; decode && i < argc; i++)
			decode(argv[i]);
		if (!decode || dlclose(plugin) != 0)
			return 2;
	}
	return fflush(stdout) != 0;
}
