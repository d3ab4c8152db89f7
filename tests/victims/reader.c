/* SPDX-License-Identifier: MIT */
/*
 * reader WAY FILE...: read files in one way and print how long each is and a sum of its bytes.
 * One way per system call that data loaders use; the files are opened by open(2) (but for
 * stdio).
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#if WITH_URING
#include <liburing.h>
#endif

#define PIECE 5000u /* no multiple of a page */

struct sum {
	uint64_t bytes, hash;
};

static void add(struct sum *sum, const void *data, size_t bytes)
{
	const unsigned char *at = data;

	/* FNV-1a */
	for (size_t i = 0; i < bytes; i++)
		sum->hash = (sum->hash ^ at[i]) * UINT64_C(0x100000001b3);
	sum->bytes += bytes;
}

static int by_read(int fd, struct sum *sum)
{
	char buffer[PIECE];
	ssize_t n;

	while ((n = read(fd, buffer, sizeof(buffer))) > 0)
		add(sum, buffer, (size_t)n);
	return n < 0 ? errno : 0;
}

/* As TensorFlow's and many others' readers do: the end is where nothing comes. */
static int by_pread(int fd, struct sum *sum)
{
	char buffer[PIECE];
	ssize_t n;

	while ((n = pread(fd, buffer, sizeof(buffer), (off_t)sum->bytes)) > 0)
		add(sum, buffer, (size_t)n);
	return n < 0 ? errno : 0;
}

static int by_vectors(int fd, struct sum *sum, int flags)
{
	char one[100], two[PIECE];
	const struct iovec parts[] = {{one, sizeof(one)}, {two, sizeof(two)}};

	for (;;) {
		ssize_t n = flags < 0 ? readv(fd, parts, 2)
				      : preadv2(fd, parts, 2, (off_t)sum->bytes, flags);
		if (n <= 0)
			return n < 0 ? errno : 0;
		size_t first = (size_t)n < sizeof(one) ? (size_t)n : sizeof(one);
		add(sum, one, first);
		add(sum, two, (size_t)n - first);
	}
}

static int by_readv(int fd, struct sum *sum)
{
	return by_vectors(fd, sum, -1);
}

static int by_preadv2(int fd, struct sum *sum)
{
	return by_vectors(fd, sum, 0);
}

static int by_mapping(int fd, struct sum *sum, int protection, int flags)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return errno;
	char *map = mmap(NULL, (size_t)st.st_size, protection, flags, fd, 0);
	if (map == MAP_FAILED)
		return errno;
	(void)madvise(map, (size_t)st.st_size, MADV_SEQUENTIAL);
	if ((protection & PROT_WRITE) != 0)
		map[0] ^= 1; /* private: nobody else sees it */
	add(sum, map, (size_t)st.st_size);
	(void)munmap(map, (size_t)st.st_size);
	return 0;
}

static int by_mmap(int fd, struct sum *sum)
{
	return by_mapping(fd, sum, PROT_READ, MAP_SHARED);
}

static int by_private(int fd, struct sum *sum)
{
	return by_mapping(fd, sum, PROT_READ | PROT_WRITE, MAP_PRIVATE);
}

static int by_fdopen(int fd, struct sum *sum)
{
	char buffer[PIECE];
	FILE *stream = fdopen(dup(fd), "rb");
	size_t n;

	if (!stream)
		return errno;
	if (fseek(stream, 0, SEEK_END) < 0 || ftell(stream) < 0 ||
		fseek(stream, 0, SEEK_SET) < 0)
		return errno;
	while ((n = fread(buffer, 1, sizeof(buffer), stream)) > 0)
		add(sum, buffer, n);
	int r = ferror(stream) ? EIO : 0;
	fclose(stream);
	return r;
}

/* Through a pipe, which sendfile(2) and splice(2) fill without a copy. */
static int through_pipe(int fd, struct sum *sum, ssize_t (*move)(int to, int from))
{
	char buffer[1 << 16];
	int ends[2], r = 0;

	if (pipe(ends) < 0)
		return errno;
	for (;;) {
		ssize_t n = move(ends[1], fd);
		if (n <= 0) {
			r = n < 0 ? errno : 0;
			break;
		}
		while (n > 0) {
			ssize_t got = read(ends[0], buffer, sizeof(buffer));
			if (got <= 0)
				return EIO;
			add(sum, buffer, (size_t)got);
			n -= got;
		}
	}
	close(ends[0]);
	close(ends[1]);
	return r;
}

static ssize_t send_piece(int to, int from)
{
	return sendfile(to, from, NULL, PIECE);
}

static ssize_t splice_piece(int to, int from)
{
	return splice(from, NULL, to, NULL, PIECE, 0);
}

static int by_sendfile(int fd, struct sum *sum)
{
	return through_pipe(fd, sum, send_piece);
}

static int by_splice(int fd, struct sum *sum)
{
	return through_pipe(fd, sum, splice_piece);
}

#if WITH_URING
static int one_request(struct io_uring *ring, struct io_uring_sqe *sqe, bool fixed_file)
{
	struct io_uring_cqe *cqe;

	if (fixed_file)
		sqe->flags |= IOSQE_FIXED_FILE;
	int r = io_uring_submit(ring);
	if (r >= 0)
		r = io_uring_wait_cqe(ring, &cqe);
	if (r < 0)
		return r;
	r = cqe->res;
	io_uring_cqe_seen(ring, cqe);
	return r;
}

/* Plain, with a registered buffer, and with a registered file: a third of the file each. */
static int by_uring(int fd, struct sum *sum)
{
	static char buffer[PIECE];
	const struct iovec part = {buffer, sizeof(buffer)};
	struct io_uring ring;
	int n = io_uring_queue_init(4, &ring, 0);

	if (n == -EPERM || n == -ENOSYS) {
		fputs("io_uring is forbidden\n", stderr);
		exit(77);
	}
	if (n >= 0)
		n = io_uring_register_buffers(&ring, &part, 1);
	if (n >= 0)
		n = io_uring_register_files(&ring, &fd, 1);
	for (unsigned turn = 0; n >= 0; turn++) {
		struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);
		if (turn % 3 == 1)
			io_uring_prep_read_fixed(sqe, fd, buffer, PIECE, sum->bytes, 0);
		else
			io_uring_prep_read(
				sqe, turn % 3 == 2 ? 0 : fd, buffer, PIECE, sum->bytes);
		n = one_request(&ring, sqe, turn % 3 == 2);
		if (n <= 0)
			break;
		add(sum, buffer, (size_t)n);
	}
	io_uring_queue_exit(&ring);
	return n < 0 ? -n : 0;
}
#endif

static const struct {
	const char *name;
	int (*read)(int fd, struct sum *sum);
} ways[] = {
	{"read", by_read},
	{"pread", by_pread},
	{"readv", by_readv},
	{"preadv2", by_preadv2},
	{"mmap", by_mmap},
	{"private", by_private},
	{"fdopen", by_fdopen},
	{"sendfile", by_sendfile},
	{"splice", by_splice},
#if WITH_URING
	{"uring", by_uring},
#endif
};

static int print(const char *path, int error, const struct sum *sum)
{
	const char *slash = strrchr(path, '/');

	printf("%s %" PRIu64 " %016" PRIx64 " %s\n", slash ? slash + 1 : path, sum->bytes,
		sum->hash, strerror(error));
	return error ? 1 : 0;
}

static int read_stream(const char *path)
{
	struct sum sum = {0, UINT64_C(0xcbf29ce484222325)};
	char buffer[PIECE];
	FILE *stream = fopen(path, "rb");
	size_t n;

	if (!stream)
		return print(path, errno, &sum);
	while ((n = fread(buffer, 1, sizeof(buffer), stream)) > 0)
		add(&sum, buffer, n);
	int error = ferror(stream) ? EIO : 0;
	fclose(stream);
	return print(path, error, &sum);
}

static int read_file(int (*way)(int fd, struct sum *sum), const char *path)
{
	struct sum sum = {0, UINT64_C(0xcbf29ce484222325)};
	int fd = strcmp(path, "-") == 0 ? dup(0) : open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return print(path, errno, &sum);
	int error = way(fd, &sum);
	close(fd);
	return print(path, error, &sum);
}

int main(int argc, char **argv)
{
	int status = 0;

	for (size_t i = 0; argc > 2 && i < sizeof(ways) / sizeof(ways[0]); i++) {
		if (strcmp(argv[1], ways[i].name) != 0)
			continue;
		for (int j = 2; j < argc; j++)
			status |= read_file(ways[i].read, argv[j]);
		return status;
	}
	if (argc > 2 && strcmp(argv[1], "fopen") == 0) {
		for (int j = 2; j < argc; j++)
			status |= read_stream(argv[j]);
		return status;
	}
	fputs("usage: reader WAY FILE...\n", stderr);
	return 2;
}
