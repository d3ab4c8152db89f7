/* SPDX-License-Identifier: MIT */
/* Messages of tsrun on stderr, and the check that stdout took what was printed. */
#include "shim/tsrun/message.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

TS_PRINTF(2, 0)
static void print(const char *prefix, const char *format, va_list arguments)
{
	int keep = errno;

	/* One buffer and one write, so that lines of several processes do not interleave. */
	char line[4096];
	int at = snprintf(line, sizeof(line), "%s: ", prefix);
	int length = vsnprintf(line + at, sizeof(line) - (size_t)at - 1, format, arguments);
	if (length < 0)
		length = 0;
	size_t end = (size_t)at + (size_t)length;
	if (end > sizeof(line) - 2)
		end = sizeof(line) - 2;
	line[end] = '\n';
	(void)fwrite(line, 1, end + 1, stderr);
	errno = keep;
}

void ts_message_say(const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	print("tsrun", format, arguments);
	va_end(arguments);
}

void ts_message_hint(const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	print("hint", format, arguments);
	va_end(arguments);
}

void ts_message_guard_streams(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDONLY | O_CLOEXEC) < 0)
			return; /* nothing else will open then either */
}

int ts_message_close_stdout(int status)
{
	bool failed = ferror(stdout) != 0;
	errno = 0;
	if (fclose(stdout) != 0)
		failed = true;
	if (!failed)
		return status;
	ts_message_say("cannot write to standard output: %s",
		errno != 0 ? strerror(errno) : "write error");
	return TS_EXIT_FAILED;
}
