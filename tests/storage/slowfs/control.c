/* SPDX-License-Identifier: MIT */
/* The control socket; see slowfs.h. */
#include "slowfs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define ASK_SECONDS 5 /* for a line, and for each part of an answer to be taken */

/* Settings in one line; more than there are names is a mistake anyway. */
#define CHANGES_MAX 64

static struct sockaddr_un address = {.sun_family = AF_UNIX};
static const char *made_directory;

static int prepare_directory(const char *directory)
{
	struct stat found;
	if (mkdir(directory, 0700) == 0)
		made_directory = directory;
	else if (errno != EEXIST)
		return -errno;
	if (lstat(directory, &found) < 0)
		return -errno;
	if (!S_ISDIR(found.st_mode) || found.st_uid != geteuid() || (found.st_mode & 077) != 0)
		return -EPERM;
	return 0;
}

int slow_control_init(const char *directory, int *ret_fd)
{
	int length =
		snprintf(address.sun_path, sizeof(address.sun_path), "%s/socket", directory);
	if (length < 0 || (size_t)length >= sizeof(address.sun_path)) {
		address.sun_path[0] = '\0';
		return -ENAMETOOLONG;
	}
	int r = prepare_directory(directory);
	if (r < 0) {
		address.sun_path[0] = '\0';
		return r;
	}
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	/* What a killed one left behind. */
	unlink(address.sun_path);
	if (bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 ||
		chmod(address.sun_path, 0600) < 0 || listen(fd, 16) < 0) {
		r = -errno;
		close(fd);
		return r;
	}
	*ret_fd = fd;
	return 0;
}

/* A line without its end, or -1. */
static ssize_t take_line(int fd, char line[static SLOW_LINE_BYTES])
{
	size_t length = 0;
	while (length < SLOW_LINE_BYTES) {
		ssize_t r = read(fd, line + length, SLOW_LINE_BYTES - length);
		if (r <= 0)
			return -1;
		char *end = memchr(line + length, '\n', (size_t)r);
		length += (size_t)r;
		if (end) {
			*end = '\0';
			return end - line;
		}
	}
	return -1;
}

static void put_all(int fd, const char *data, size_t bytes)
{
	while (bytes > 0) {
		ssize_t r = send(fd, data, bytes, MSG_NOSIGNAL);
		if (r <= 0)
			return;
		data += r;
		bytes -= (size_t)r;
	}
}

static void change_settings(char *words, FILE *out)
{
	enum slow_setting ids[CHANGES_MAX];
	int64_t values[CHANGES_MAX];
	int count = 0;
	char *rest;
	for (char *word = strtok_r(words, " ", &rest); word;
		word = strtok_r(NULL, " ", &rest)) {
		int r = count == CHANGES_MAX
				? -E2BIG
				: slow_parse_setting(word, true, &ids[count], &values[count]);
		if (r < 0) {
			fprintf(out, "{\"error\": \"cannot set %.40s: %s\"}\n", word,
				strerror(-r));
			return;
		}
		count++;
	}
	for (int i = 0; i < count; i++)
		slow_put(ids[i], values[i]);
	slow_pace_wake();
	fputs("{}\n", out);
}

static bool answer_line(char *line, FILE *out)
{
	if (strncmp(line, "set ", 4) == 0) {
		change_settings(line + 4, out);
	} else if (strcmp(line, "get") == 0) {
		slow_print_settings(out);
	} else if (strcmp(line, "counts") == 0) {
		slow_count_print(out, slow_pace_waiting());
	} else if (strcmp(line, "reset") == 0) {
		slow_count_reset();
		fputs("{}\n", out);
	} else if (strcmp(line, "stop") == 0) {
		fputs("{}\n", out);
		return false;
	} else {
		fputs("{\"error\": \"no such command\"}\n", out);
	}
	return true;
}

bool slow_control_answer(int fd)
{
	struct timeval limit = {.tv_sec = ASK_SECONDS};
	char line[SLOW_LINE_BYTES];
	char *text = NULL;
	size_t bytes = 0;
	bool go_on = true;
	int peer = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
	if (peer < 0)
		return true;
	(void)setsockopt(peer, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	(void)setsockopt(peer, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	if (take_line(peer, line) >= 0) {
		FILE *out = open_memstream(&text, &bytes);
		if (out) {
			go_on = answer_line(line, out);
			fclose(out);
			put_all(peer, text, bytes);
			free(text);
		}
	}
	close(peer);
	return go_on;
}

void slow_control_finish(int fd)
{
	if (fd >= 0)
		close(fd);
	if (address.sun_path[0] != '\0')
		unlink(address.sun_path);
	if (made_directory)
		rmdir(made_directory);
}
