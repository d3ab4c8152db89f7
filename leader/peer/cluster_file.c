/* SPDX-License-Identifier: MIT */
/* Files of a user's cluster: whose they are, and their lines.  leader/peer/cluster_private.h.
 */
#include "leader/peer/cluster_private.h"

#include "shim/sys.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Errors: -EPERM of another user, or others may do what is among the bits of @closed. */
static int check_owner(int fd, mode_t type, mode_t closed, struct ts_cluster_fault *fault)
{
	struct stat st;
	int r = ts_sys_fstat(fd, &st);

	if (r < 0)
		return r;
	if ((st.st_mode & S_IFMT) != type) {
		fault->text = "no regular file"; /* a directory was opened as one */
		return -EINVAL;
	}
	if (st.st_uid != geteuid()) {
		fault->text = "belongs to another user";
		return -EPERM;
	}
	if (st.st_mode & closed) {
		fault->text = closed & S_IRGRP ? "others may read or write it"
					       : "others may write it";
		return -EPERM;
	}
	return 0;
}

int ts_cluster_begin(struct ts_cluster_fault *fault, const char *path)
{
	*fault = (struct ts_cluster_fault){.text = ""};
	if (snprintf(fault->file, sizeof(fault->file), "%s", path) >= (int)sizeof(fault->file))
		return -ENAMETOOLONG;
	return 0;
}

/* Not blocking: it may be a pipe that nobody writes to. */
static int open_file(const char *path, int flags)
{
	return ts_sys_open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | flags, 0);
}

int ts_cluster_check_file(
	const char *path, mode_t type, mode_t closed, struct ts_cluster_fault *fault)
{
	int r = ts_cluster_begin(fault, path);
	int fd = r < 0 ? r : open_file(path, type == S_IFDIR ? O_DIRECTORY : O_NOFOLLOW);

	if (fd < 0)
		return fd;
	r = check_owner(fd, type, closed, fault);
	ts_sys_close(fd);
	return r;
}

static int read_text(int fd, size_t max, struct ts_cluster_fault *fault, char **ret_text)
{
	char *text = malloc(max + 2);
	size_t bytes = 0;
	int64_t n = text ? 1 : -ENOMEM;

	while (n > 0 && bytes <= max) {
		n = ts_sys_read(fd, text + bytes, max + 1 - bytes);
		bytes += n > 0 ? (size_t)n : 0;
	}
	if (n >= 0 && (bytes > max || memchr(text, '\0', bytes))) {
		fault->text = bytes > max ? "too long" : "no text";
		n = -EINVAL;
	}
	if (n < 0) {
		free(text);
		return (int)n;
	}
	text[bytes] = '\0';
	*ret_text = text;
	return 0;
}

int ts_cluster_read_file(
	const char *path, bool foreign, size_t max, struct ts_cluster_reader *reader)
{
	int r = ts_cluster_begin(reader->fault, path);
	int fd = r < 0 ? r : open_file(path, foreign ? 0 : O_NOFOLLOW);

	if (fd < 0)
		return fd;
	if (!foreign)
		r = check_owner(fd, S_IFREG, S_IWGRP | S_IWOTH, reader->fault);
	if (r == 0)
		r = read_text(fd, max, reader->fault, &reader->text);
	ts_sys_close(fd);
	if (r == 0)
		reader->next = reader->text;
	return r;
}

char *ts_cluster_next_line(struct ts_cluster_reader *reader)
{
	while (*reader->next) {
		char *line = reader->next;
		size_t length = strcspn(line, "\n");

		reader->next = line + length + (line[length] == '\n');
		line[length] = '\0';
		reader->fault->line++;
		line[strcspn(line, "#")] = '\0';
		line += strspn(line, TS_CLUSTER_BLANKS);
		length = strlen(line);
		while (length > 0 && strchr(TS_CLUSTER_BLANKS, line[length - 1]))
			line[--length] = '\0';
		if (length > 0)
			return line;
	}
	reader->fault->line = 0;
	return NULL;
}
