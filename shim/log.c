/* SPDX-License-Identifier: MIT */
/* A formatter of a few conversions, and lines on stderr made with it. */
#include "shim/log.h"

#include "shim/atomic.h"
#include "shim/sys.h"

#include <stdarg.h>
#include <string.h>
#include <unistd.h>

struct sink {
	char *at, *end; /* the byte at @end is kept for the NUL */
};

static void put(struct sink *sink, char c)
{
	if (sink->at < sink->end)
		*sink->at++ = c;
}

static void put_number(struct sink *sink, unsigned long long value)
{
	char digits[20];
	size_t n = 0;

	do {
		digits[n++] = (char)('0' + value % 10);
		value /= 10;
	} while (value);
	while (n)
		put(sink, digits[--n]);
}

static void put_text(struct sink *sink, const char *text)
{
	for (text = text ? text : "(null)"; *text; text++)
		put(sink, *text);
}

/* One conversion after '%'; returns where the format goes on. */
static const char *convert(struct sink *sink, const char *p, va_list *arguments)
{
	int number;

	switch (*p) {
	case 's':
		put_text(sink, va_arg(*arguments, const char *));
		return p + 1;
	case 'd':
		number = va_arg(*arguments, int);
		if (number < 0)
			put(sink, '-');
		put_number(sink, number < 0 ? 0ULL - (unsigned long long)number :
					      (unsigned long long)number);
		return p + 1;
	case 'u':
		put_number(sink, va_arg(*arguments, unsigned));
		return p + 1;
	case 'l':
		if (p[1] == 'l' && p[2] == 'u') {
			put_number(sink, va_arg(*arguments, unsigned long long));
			return p + 3;
		}
		break;
	case '%':
		put(sink, '%');
		return p + 1;
	default:
		break;
	}
	/* Not ours: show it as it is, but take no argument. */
	put(sink, '%');
	return p;
}

size_t ts_format_v(char *buffer, size_t bytes, const char *format, va_list arguments)
{
	struct sink sink = {buffer, buffer + (bytes ? bytes - 1 : 0)};
	va_list copy;

	if (bytes == 0)
		return 0;
	va_copy(copy, arguments);
	while (*format) {
		if (*format == '%')
			format = convert(&sink, format + 1, &copy);
		else
			put(&sink, *format++);
	}
	va_end(copy);
	*sink.at = '\0';
	return (size_t)(sink.at - buffer);
}

size_t ts_format(char *buffer, size_t bytes, const char *format, ...)
{
	va_list arguments;
	size_t length;

	va_start(arguments, format);
	length = ts_format_v(buffer, bytes, format, arguments);
	va_end(arguments);
	return length;
}

void ts_log(enum ts_level level, const char *format, ...)
{
	static _Atomic uint32_t lines;
	static const char prefix[] = "tsshim: ";
	char line[512];
	size_t length = sizeof(prefix) - 1;
	va_list arguments;

	if (level > ts_config()->debug || ts_load_relaxed(&lines) >= TS_LOG_MAX)
		return;
	if (ts_add_relaxed(&lines, 1) >= TS_LOG_MAX)
		return;
	memcpy(line, prefix, length);
	va_start(arguments, format);
	length += ts_format_v(line + length, sizeof(line) - length - 1, format, arguments);
	va_end(arguments);
	line[length++] = '\n';
	(void)ts_sys_write(STDERR_FILENO, line, length);
}
