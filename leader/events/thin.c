/* SPDX-License-Identifier: MIT */
/*
 * Making an event log shorter: every second sample of a job goes, the older ones have gone so
 * before, and if that is not enough the oldest lines.
 *
 *	FILE, locked --read--> FILE.shorter --lock, sync--> rename over FILE --> unlock the old
 *
 * A writer that is killed on the way leaves FILE as it was, or the shorter one, and perhaps a
 * FILE.shorter, which the next writer removes.  The shorter one is locked before it has the
 * name, so that there is never a moment in which somebody else could get the lock.
 */
#include "leader/events/log_private.h"

#include "leader/object/killpoint.h"
#include "shim/hash.h"
#include "shim/sys.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

/* Rounds in which every second sample goes, until a quarter of the file has gone. */
#define ROUNDS_MAX 8

/* A sample stays when so much time lies behind it: what comes after is another story. */
#define GAP_MS 2500

/* Jobs times kinds of lines of which a last one is known; what finds no place stays. */
#define KEYS 8192u

#define WRITE_BYTES 65536u

struct key {
	uint64_t hash;   /* of kind and job; 0: free */
	int64_t kept_ms; /* when the last line was that stays for certain */
	int64_t at_ms;   /* and the one after it, which goes when the next one is near */
	size_t number;   /* of that line */
	size_t bytes;    /* of it; 0: there is none */
};

struct thinning {
	const char *start, *end; /* the old file */
	uint64_t target;         /* most bytes of the new one, but for the last steps */
	struct key *keys;
	unsigned char *gone; /* a bit for each line that goes, by the number of the line */
	uint64_t left;       /* bytes of all others */
};

/** A line as it is needed here. */
struct line {
	const char *text;
	size_t bytes; /* with its newline */
	bool head;    /* a file may begin with it */
	bool sound;   /* it has a time and a kind, or is a head */
	bool sample;  /* the next one of its kind and job says as much */
	int64_t t_ms;
	uint64_t hash;
};

/* ---- reading lines ---------------------------------------------------------------------- */

/* What stands between @before and '"' in @line, or NULL. */
static const char *find_value(const struct line *line, const char *before, size_t *ret_bytes)
{
	size_t length = strlen(before);
	const char *at = memmem(line->text, line->bytes, before, length);
	const char *end =
		at ? memchr(at + length, '"', (size_t)(line->text + line->bytes - at) - length)
		   : NULL;

	if (!end)
		return NULL;
	*ret_bytes = (size_t)(end - at) - length;
	return at + length;
}

/* {"t":1234.567,... as ts_event_open() writes it; -1: it is something else. */
static int64_t read_time(const struct line *line)
{
	static const char before[] = "{\"t\":";
	int64_t ms = 0;
	size_t at = sizeof(before) - 1;

	if (line->bytes <= at || memcmp(line->text, before, at) != 0)
		return -1;
	for (; at < line->bytes && line->text[at] != ','; at++) {
		if (line->text[at] >= '0' && line->text[at] <= '9' && ms < INT64_MAX / 100)
			ms = ms * 10 + (line->text[at] - '0');
		else if (line->text[at] != '.')
			return -1;
	}
	return ms;
}

/* Whether a line of this kind is one of many. */
static bool is_sample(const char *kind, size_t bytes)
{
	static const char *const kinds[] = {"counts", "reasons", "order", "ring"};

	for (size_t i = 0; i < TS_ARRAY_SIZE(kinds); i++)
		if (strlen(kinds[i]) == bytes && memcmp(kind, kinds[i], bytes) == 0)
			return true;
	return false;
}

/* The line at @at, or false at the end.  A last one that has no end counts as damaged. */
static bool read_line(const struct thinning *thinning, const char *at, struct line *ret_line)
{
	static const char final[] = "\"final\":true", head[] = "{\"tsshim_events\":";
	size_t rest = (size_t)(thinning->end - at), kind_bytes, job_bytes;

	if (rest == 0)
		return false;
	const char *newline = memchr(at, '\n', rest);
	struct line line = {.text = at, .bytes = newline ? (size_t)(newline - at) + 1 : rest};
	line.t_ms = read_time(&line);
	const char *kind = find_value(&line, "\"e\":\"", &kind_bytes);
	line.head = newline && rest >= sizeof(head) - 1 &&
		    memcmp(line.text, head, sizeof(head) - 1) == 0;
	line.sound = line.head || (newline && line.t_ms >= 0 && kind);
	if (line.sound && kind && is_sample(kind, kind_bytes) &&
		!memmem(line.text, line.bytes, final, sizeof(final) - 1)) {
		const char *job = find_value(&line, "\"job\":\"", &job_bytes);
		line.sample = true;
		line.hash =
			ts_hash64(kind, kind_bytes) ^ (job ? ts_hash64(job, job_bytes) * 3 : 0);
		line.hash |= 1;
	}
	*ret_line = line;
	return true;
}

/* ---- choosing --------------------------------------------------------------------------- */

static bool is_gone(const struct thinning *thinning, size_t number)
{
	return thinning->gone[number / 8] >> number % 8 & 1;
}

static void let_go(struct thinning *thinning, size_t number, size_t bytes)
{
	thinning->gone[number / 8] |= (unsigned char)(1 << number % 8);
	thinning->left -= bytes;
}

static struct key *find_key(struct thinning *thinning, uint64_t hash)
{
	for (uint32_t i = 0; i < 16; i++) {
		struct key *key = &thinning->keys[(hash / 2 + i) % KEYS];
		if (key->hash == hash || key->hash == 0) {
			key->hash = hash;
			return key;
		}
	}
	return NULL;
}

/*
 * Of three samples in a row the middle one goes, unless the third one is much later than the
 * second one was after the first: what a job did before a pause is not to be spread over it.
 */
static void judge(struct thinning *thinning, const struct line *line, size_t number)
{
	struct key *key = find_key(thinning, line->hash);

	if (!key)
		return;
	if (key->bytes > 0) {
		int64_t before = key->at_ms - key->kept_ms, after = line->t_ms - key->at_ms;
		bool goes = before >= 0 && after >= 0 && after <= 2 * before + GAP_MS;
		key->kept_ms = goes ? line->t_ms : key->at_ms;
		if (goes) {
			let_go(thinning, key->number, key->bytes);
			key->bytes = 0;
			return;
		}
	} else if (key->kept_ms == 0) {
		key->kept_ms = line->t_ms;
		return;
	}
	key->at_ms = line->t_ms;
	key->number = number;
	key->bytes = line->bytes;
}

/* One round over all lines; what is damaged, or stands before a head, goes in the first one. */
static void choose(struct thinning *thinning)
{
	struct line line;
	const char *at = thinning->start;
	bool headed = false;

	memset(thinning->keys, 0, KEYS * sizeof(*thinning->keys));
	for (size_t i = 0; read_line(thinning, at, &line); i++, at += line.bytes) {
		if (is_gone(thinning, i))
			continue;
		headed |= line.head;
		if (!line.sound || !headed)
			let_go(thinning, i, line.bytes);
		else if (line.sample)
			judge(thinning, &line, i);
	}
}

/* The oldest lines go until @target is met, but for the first head. */
static void cut_front(struct thinning *thinning)
{
	struct line line;
	const char *at = thinning->start;
	bool headed = false;

	for (size_t i = 0; thinning->left > thinning->target && read_line(thinning, at, &line);
		i++, at += line.bytes)
		if (is_gone(thinning, i) || (line.head && !headed))
			headed |= line.head;
		else
			let_go(thinning, i, line.bytes);
}

static void choose_all(struct thinning *thinning)
{
	uint64_t before;
	int rounds = 0;

	do {
		before = thinning->left;
		choose(thinning);
	} while (++rounds < ROUNDS_MAX && thinning->left > thinning->target &&
		 thinning->left < before);
	cut_front(thinning);
}

/* ---- writing ---------------------------------------------------------------------------- */

static int write_all(int fd, const char *text, size_t bytes)
{
	while (bytes > 0) {
		int64_t n = ts_sys_write(fd, text, bytes);
		if (n == -EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? (int)n : -ENOSPC;
		text += n;
		bytes -= (size_t)n;
	}
	return 0;
}

static int copy(const struct thinning *thinning, int fd)
{
	static char buffer[WRITE_BYTES];
	const char *at = thinning->start;
	size_t length = 0;
	struct line line;
	int r = 0;

	for (size_t i = 0; r == 0 && read_line(thinning, at, &line); i++, at += line.bytes) {
		if (is_gone(thinning, i))
			continue;
		if (length + line.bytes > sizeof(buffer)) {
			r = write_all(fd, buffer, length);
			length = 0;
			TS_KILLPOINT(events_copied);
		}
		/* A longer one is none of ours, whatever it looks like. */
		if (line.bytes > sizeof(buffer))
			continue;
		memcpy(buffer + length, line.text, line.bytes);
		length += line.bytes;
	}
	return r == 0 ? write_all(fd, buffer, length) : r;
}

/* Lock @fd and give it the name. */
static int replace(struct ts_event_log *log, const char *path, int fd)
{
	struct stat old = {.st_mode = 0}, st = {.st_size = 0};
	int r = ts_sys_fstat(log->fd, &old);

	if (r == 0)
		r = ts_sys_fchmod(fd, old.st_mode & 0777);
	if (r == 0)
		r = ts_sys_flock(fd, LOCK_EX | LOCK_NB);
	if (r == 0 && fdatasync(fd) < 0)
		r = -errno;
	if (r == 0)
		r = ts_sys_fstat(fd, &st);
	TS_KILLPOINT(events_locked);
	if (r == 0)
		r = ts_sys_rename(path, log->path);
	TS_KILLPOINT(events_renamed);
	if (r < 0)
		return r;
	ts_sys_close(log->fd);
	log->fd = fd;
	log->bytes = (uint64_t)st.st_size;
	log->device = st.st_dev;
	log->inode = st.st_ino;
	return 0;
}

static int write_shorter(struct ts_event_log *log, const struct thinning *thinning)
{
	char path[TS_EVENTS_PATH];

	ts_event_log_new_path(log, path);
	(void)ts_sys_unlink(path);
	int fd = ts_sys_open(
		path, O_RDWR | O_APPEND | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return fd;
	int r = copy(thinning, fd);
	if (r == 0)
		r = replace(log, path, fd);
	if (r < 0) {
		(void)ts_sys_unlink(path);
		ts_sys_close(fd);
	}
	return r;
}

int ts_event_log_thin(struct ts_event_log *log)
{
	struct thinning thinning = {.target = log->max - log->max / 4, .left = log->bytes};

	if (log->bytes == 0)
		return 0;
	/* Who cuts the file meanwhile ends us; the next writer finds it as it is then. */
	void *map = mmap(NULL, log->bytes, PROT_READ, MAP_PRIVATE, log->fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	thinning.start = map;
	thinning.end = thinning.start + log->bytes;
	thinning.keys = malloc(KEYS * sizeof(*thinning.keys));
	thinning.gone = calloc(1, log->bytes / 8 + 1);
	int r = -ENOMEM;
	if (thinning.keys && thinning.gone) {
		choose_all(&thinning);
		r = write_shorter(log, &thinning);
	}
	free(thinning.gone);
	free(thinning.keys);
	(void)munmap(map, thinning.end - thinning.start);
	return r;
}
