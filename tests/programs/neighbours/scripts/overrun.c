/* SPDX-License-Identifier: MIT */
/* Reads a file; with an argument, also behind the end of an allocation. */
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	char *bytes = calloc(1, 8);
	FILE *file = fopen("overrun.c", "r");
	int c = fgetc(file);

	fclose(file);
	printf("%c\n", c);
	c = argc > 1 ? bytes[8] : 0;
	free(bytes);
	return c != 0;
}
