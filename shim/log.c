/* SPDX-License-Identifier: MIT */
/* One line on stderr, written with one write(2). */
#include "shim/log.h"

#include "shim/atomic.h"
#include "shim/sys.h"

#include <stdarg.h>
#include <string.h>

#define LINE_MAX_BYTES 512u

struct writer {
	char *at;
	size_t left; /* without the terminator */
};

static void put(struct writer *writer, const char *text, size_t bytes)
{
	if (bytes > writer->left)
		bytes = writer->left;
	memcpy(writer->at, text, bytes);
	writer->at += bytes;
	writer->left -= bytes;
}

static void put_number(struct writer *writer, uint64_t value, bool negative)
{
	char digits[24];
	size_t i = sizeof(digits);
	do {
		digits[--i] = (char)('0' + value % 10);
		value /= 10;
	} while (value);
	if (negative)
		digits[--i] = '-';
	put(writer, digits + i, sizeof(digits) - i);
}

/* Handles the conversion behind '%' and returns the character after it. */
static const char *convert(struct writer *writer, const char *format, va_list *arguments)
{
	if (strncmp(format, "llu", 3) == 0) {
		put_number(writer, va_arg(*arguments, unsigned long long), false);
		return format + 3;
	}
	switch (*format) {
	case 's': {
		const char *text = va_arg(*arguments, const char *);
		text = text ? text : "(null)";
		put(writer, text, strlen(text));
		break;
	}
	case 'd': {
		int value = va_arg(*arguments, int);
		put_number(
			writer, value < 0 ? 0 - (uint64_t)value : (uint64_t)value, value < 0);
		break;
	}
	case 'u':
		put_number(writer, va_arg(*arguments, unsigned), false);
		break;
	case '\0':
		return format;
	default:
		put(writer, format, 1);
		break;
	}
	return format + 1;
}

size_t ts_format_v(char *buffer, size_t bytes, const char *format, va_list arguments)
{
	if (bytes == 0)
		return 0;
	struct writer writer = {buffer, bytes - 1};
	va_list list;
	va_copy(list, arguments);
	while (*format) {
		const char *percent = strchr(format, '%');
		size_t plain = percent ? (size_t)(percent - format) : strlen(format);
		put(&writer, format, plain);
		format += plain;
		if (percent)
			format = convert(&writer, percent + 1, &list);
	}
	va_end(list);
	*writer.at = '\0';
	return (size_t)(writer.at - buffer);
}

size_t ts_format(char *buffer, size_t bytes, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	size_t length = ts_format_v(buffer, bytes, format, arguments);
	va_end(arguments);
	return length;
}

void ts_log(enum ts_level level, const char *format, ...)
{
	static _Atomic uint32_t lines;
	if (level > ts_config()->debug)
		return;
	/* Relaxed: only a limit. */
	if (ts_add_relaxed(&lines, 1) >= TS_LOG_MAX)
		return;
	char line[LINE_MAX_BYTES];
	size_t length = ts_format(line, sizeof(line) - 1, "tsshim: ");
	va_list arguments;
	va_start(arguments, format);
	length += ts_format_v(line + length, sizeof(line) - 1 - length, format, arguments);
	va_end(arguments);
	line[length++] = '\n';
	(void)ts_sys_write(2, line, length);
}
