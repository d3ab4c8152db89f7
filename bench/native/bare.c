/* SPDX-License-Identifier: MIT */
/*
 * A bare client of memcached over TLS, to compare with: a blocking socket, one request at a
 *time into one buffer, no check of what comes but its length.
 *
 *	bare HOST PORT CERTIFICATE KEY AUTH   AUTH: a file with "user:token"; "ready"
 *	stdin:  get LIST BYTES                stdout: one line of JSON; LIST: a file with a key
 *	                                              per line, each of which is got once
 *	        put LIST BYTES                the same, each into a new file of /dev/shm, whose
 *	                                              memory is there
 *	        set LIST BYTES                each is stored
 */
#include "common.h"

#include <fcntl.h>
#include <inttypes.h>
#include <netdb.h>
#include <openssl/ssl.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

static SSL *ssl;
static char buffer[1 << 20];

static void connect_to(
	const char *host, const char *port, const char *certificate, const char *key)
{
	struct addrinfo *found, hints = {.ai_socktype = SOCK_STREAM};
	SSL_CTX *tls = SSL_CTX_new(TLS_client_method());

	if (getaddrinfo(host, port, &hints, &found) != 0)
		die(host);
	int fd = socket(found->ai_family, SOCK_STREAM, 0);
	if (fd < 0 || connect(fd, found->ai_addr, found->ai_addrlen) < 0)
		die("connect");
	SSL_CTX_set_verify(tls, SSL_VERIFY_PEER, NULL);
	if (SSL_CTX_load_verify_file(tls, certificate) != 1 ||
		SSL_CTX_use_certificate_file(tls, certificate, SSL_FILETYPE_PEM) != 1 ||
		SSL_CTX_use_PrivateKey_file(tls, key, SSL_FILETYPE_PEM) != 1)
		die("certificate");
	ssl = SSL_new(tls);
	SSL_set_fd(ssl, fd);
	if (SSL_connect(ssl) != 1)
		die("SSL_connect");
	freeaddrinfo(found);
}

static void send_all(const char *text)
{
	if (SSL_write(ssl, text, (int)strlen(text)) <= 0)
		die("SSL_write");
}

/* Until the answer that begins at the front of the buffer has @bytes, or a line if 0. */
static size_t receive(size_t bytes)
{
	size_t have = 0;

	for (;;) {
		int n = SSL_read(ssl, buffer + have, (int)(sizeof(buffer) - have));
		if (n <= 0)
			die("SSL_read");
		have += (size_t)n;
		const char *line = memchr(buffer, '\n', have);
		if (line && (bytes == 0 || have >= (size_t)(line + 1 - buffer) + bytes + 2))
			return have;
	}
}

/* The first line "user:token" of @path, as the server wants it. */
static void show_token(const char *path)
{
	char text[256], line[512];
	FILE *file = fopen(path, "r");

	if (!file || !fgets(text, sizeof(text), file))
		die(path);
	fclose(file);
	text[strcspn(text, "\n")] = '\0';
	char *colon = strchr(text, ':');
	if (!colon)
		die(path);
	*colon = ' ';
	snprintf(line, sizeof(line), "set auth 0 0 %zu\r\n%s\r\n", strlen(text), text);
	send_all(line);
	(void)receive(0);
	if (strncmp(buffer, "STORED", 6) != 0)
		die("the token");
}

/* ---- files ------------------------------------------------------------------------------ */

static const char *path_of(size_t number)
{
	static char path[64];

	snprintf(path, sizeof(path), "/dev/shm/tsshim-bench.%d.%zu", (int)getpid(), number);
	return path;
}

static void make_files(size_t count, uint64_t bytes)
{
	for (size_t i = 0; i < count; i++) {
		int fd = open(path_of(i), O_WRONLY | O_CREAT | O_EXCL, 0600);
		if (fd < 0 || posix_fallocate(fd, 0, (off_t)bytes) != 0)
			die("a file");
		close(fd);
	}
}

static void put(size_t number, uint64_t bytes)
{
	const char *value = memchr(buffer, '\n', sizeof(buffer));
	int fd = open(path_of(number), O_WRONLY);

	if (fd < 0 || pwrite(fd, value + 1, bytes, 0) != (ssize_t)bytes)
		die("pwrite");
	close(fd);
}

static void remove_files(size_t count)
{
	for (size_t i = 0; i < count; i++)
		unlink(path_of(i));
}

/* ---- one key ---------------------------------------------------------------------------- */

static void get(const char *key, uint64_t bytes)
{
	char request[300];

	snprintf(request, sizeof(request), "mg %s v\r\n", key);
	send_all(request);
	(void)receive(bytes);
	if (strncmp(buffer, "VA ", 3) != 0)
		die("no value");
}

static void set(const char *key, uint64_t bytes)
{
	char request[300];

	snprintf(request, sizeof(request), "ms %s %" PRIu64 " T60\r\n", key, bytes);
	send_all(request);
	memset(buffer, 'x', bytes);
	memcpy(buffer + bytes, "\r\n", 3);
	send_all(buffer);
	(void)receive(0);
	if (strncmp(buffer, "HD", 2) != 0)
		die("not stored");
}

int main(int argc, char **argv)
{
	char line[512], what[8], list[256];
	uint64_t bytes;
	size_t count;

	if (argc != 6)
		die("usage: bare HOST PORT CERTIFICATE KEY AUTH");
	connect_to(argv[1], argv[2], argv[3], argv[4]);
	show_token(argv[5]);
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "%7s %255s %" SCNu64, what, list, &bytes) != 3)
			die("question");
		char **keys = read_list(list, &count);
		bool puts_them = strcmp(what, "put") == 0, sets = strcmp(what, "set") == 0;
		if (bytes > sizeof(buffer) - 3)
			die("too large");
		if (puts_them)
			make_files(count, bytes);
		uint64_t wall = now(CLOCK_MONOTONIC), cpu = now(CLOCK_PROCESS_CPUTIME_ID);
		for (size_t i = 0; i < count; i++) {
			(sets ? set : get)(keys[i], bytes);
			if (puts_them)
				put(i, bytes);
		}
		cpu = now(CLOCK_PROCESS_CPUTIME_ID) - cpu;
		wall = now(CLOCK_MONOTONIC) - wall;
		if (puts_them)
			remove_files(count);
		printf("{\"wall_ns\": %" PRIu64 ", \"cpu_ns\": %" PRIu64 "}\n", wall, cpu);
		fflush(stdout);
	}
	return 0;
}
