/* SPDX-License-Identifier: MIT */
/* Reads a file and an array; with an argument, also what was never written. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int sum(const int *values, int count)
{
	int sum = 0;

	for (int i = 0; i < count; i++)
		sum += values[i];
	return sum;
}

int main(int argc, char **argv)
{
	int *values = malloc(8 * sizeof(*values));
	FILE *file = fopen("sums.c", "r");
	int c = fgetc(file);

	memset(values, 1, 7 * sizeof(*values));
	fclose(file);
	printf("%d %c %d\n", argc, c, sum(values, argc > 1 ? 9 : 7));
	return 3;
}
