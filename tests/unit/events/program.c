/* SPDX-License-Identifier: MIT */
/* A program that looks at none of its arguments and lives as long as its standard input. */
#include <unistd.h>

int main(void)
{
	char byte;

	(void)!write(STDOUT_FILENO, "", 1);
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	return 0;
}
