/* SPDX-License-Identifier: MIT */
/* Counting requests and bytes; see slowfs.h. */
#include "slowfs.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS 4096u /* some hundred files each in a data set of a million */

struct slow_record {
	struct slow_record *next;
	uint64_t opens, reads, bytes_read, bytes_written;
	char path[];
};

static const char *const kind_names[] = {
#define X(id, name) #name,
	SLOW_KINDS(X)
#undef X
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct slow_record *buckets[BUCKETS];
static struct slow_record total;
static uint64_t requests[SLOW_KIND_COUNT];

/* FNV-1a: any spread will do. */
static uint32_t bucket_of(const char *path)
{
	uint32_t hash = UINT32_C(2166136261);
	for (; *path != '\0'; path++)
		hash = (hash ^ (unsigned char)*path) * UINT32_C(16777619);
	return hash % BUCKETS;
}

static struct slow_record *find_locked(const char *path)
{
	struct slow_record **place = &buckets[bucket_of(path)];
	for (struct slow_record *record = *place; record; record = record->next)
		if (strcmp(record->path, path) == 0)
			return record;
	size_t bytes = strlen(path) + 1;
	struct slow_record *record = calloc(1, sizeof(*record) + bytes);
	if (!record)
		return NULL;
	memcpy(record->path, path, bytes);
	record->next = *place;
	*place = record;
	return record;
}

void slow_count_arrival(enum slow_kind kind, struct slow_record *record)
{
	pthread_mutex_lock(&lock);
	requests[kind]++;
	if (kind == SLOW_KIND_READ) {
		total.reads++;
		if (record)
			record->reads++;
	}
	pthread_mutex_unlock(&lock);
}

struct slow_record *slow_count_open(const char *path)
{
	pthread_mutex_lock(&lock);
	struct slow_record *record = find_locked(path);
	total.opens++;
	if (record)
		record->opens++;
	pthread_mutex_unlock(&lock);
	return record;
}

void slow_count_read(struct slow_record *record, uint64_t bytes)
{
	pthread_mutex_lock(&lock);
	total.bytes_read += bytes;
	if (record)
		record->bytes_read += bytes;
	pthread_mutex_unlock(&lock);
}

void slow_count_write(struct slow_record *record, uint64_t bytes)
{
	pthread_mutex_lock(&lock);
	total.bytes_written += bytes;
	if (record)
		record->bytes_written += bytes;
	pthread_mutex_unlock(&lock);
}

static void clear(struct slow_record *record)
{
	record->opens = record->reads = record->bytes_read = record->bytes_written = 0;
}

void slow_count_reset(void)
{
	pthread_mutex_lock(&lock);
	memset(requests, 0, sizeof(requests));
	clear(&total);
	for (uint32_t i = 0; i < BUCKETS; i++)
		for (struct slow_record *record = buckets[i]; record; record = record->next)
			clear(record);
	pthread_mutex_unlock(&lock);
}

static void print_string(FILE *out, const char *text)
{
	putc('"', out);
	for (; *text != '\0'; text++) {
		if (*text == '"' || *text == '\\')
			fprintf(out, "\\%c", *text);
		else if ((unsigned char)*text < ' ')
			fprintf(out, "\\u%04x", (unsigned)*text);
		else
			putc(*text, out);
	}
	putc('"', out);
}

static void print_record(FILE *out, const struct slow_record *record)
{
	fprintf(out, "\"opens\": %llu, \"reads\": %llu, ", (unsigned long long)record->opens,
		(unsigned long long)record->reads);
	fprintf(out, "\"bytes_read\": %llu, \"bytes_written\": %llu",
		(unsigned long long)record->bytes_read,
		(unsigned long long)record->bytes_written);
}

static void print_files_locked(FILE *out)
{
	bool first = true;
	for (uint32_t i = 0; i < BUCKETS; i++) {
		for (struct slow_record *record = buckets[i]; record; record = record->next) {
			if ((record->opens | record->reads | record->bytes_written) == 0)
				continue;
			fputs(first ? "\n" : ",\n", out);
			first = false;
			print_string(out, record->path);
			fputs(": {", out);
			print_record(out, record);
			putc('}', out);
		}
	}
}

void slow_count_print(FILE *out, uint64_t waiting)
{
	pthread_mutex_lock(&lock);
	for (int kind = 0; kind < SLOW_KIND_COUNT; kind++)
		fprintf(out, "%s\"%s\": %llu", kind == 0 ? "{\"requests\": {" : ", ",
			kind_names[kind], (unsigned long long)requests[kind]);
	fprintf(out, "}, \"waiting\": %llu, ", (unsigned long long)waiting);
	print_record(out, &total);
	fputs(", \"files\": {", out);
	print_files_locked(out);
	fputs("}}\n", out);
	pthread_mutex_unlock(&lock);
}
