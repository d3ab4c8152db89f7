/* SPDX-License-Identifier: MIT */
/* The secret of a user's nodes: leader/peer/secret.h explains it. */
#include "leader/peer/secret.h"

#include "shim/sys.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>
#include <unistd.h>

/* Two lines; whatever is longer is something else. */
#define FILE_MAX 256

/* Digits of one. */
#define LINE ((ptrdiff_t)2 * TS_SECRET_BYTES)

static int derive(const unsigned char secret[TS_SECRET_BYTES], const char *use,
	unsigned char ret_key[TS_SECRET_BYTES])
{
	unsigned bytes = 0;

	if (!HMAC(EVP_sha256(), secret, TS_SECRET_BYTES, (const unsigned char *)use,
		    strlen(use), ret_key, &bytes) ||
		bytes != TS_SECRET_BYTES)
		return -ENOTSUP;
	return 0;
}

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

static int read_line(const char *text, unsigned char ret_secret[TS_SECRET_BYTES])
{
	for (size_t i = 0; i < TS_SECRET_BYTES; i++) {
		int high = digit(text[2 * i]);
		int low = high < 0 ? -1 : digit(text[2 * i + 1]);
		if (low < 0)
			return -EINVAL;
		ret_secret[i] = (unsigned char)(high << 4 | low);
	}
	return 0;
}

static void write_hex(const unsigned char *bytes, char ret_text[TS_SECRET_TOKEN])
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < TS_SECRET_BYTES; i++) {
		ret_text[2 * i] = digits[bytes[i] >> 4];
		ret_text[2 * i + 1] = digits[bytes[i] & 15];
	}
	ret_text[TS_SECRET_TOKEN - 1] = '\0';
}

static int add(struct ts_secrets *secrets, const unsigned char secret[TS_SECRET_BYTES])
{
	unsigned char key[TS_SECRET_BYTES];
	typeof(&secrets->keys[0]) to = &secrets->keys[secrets->count];
	int r = derive(secret, "tsshim peer 1: values", to->value);

	if (r == 0)
		r = derive(secret, "tsshim peer 1: token", key);
	if (r == 0)
		write_hex(key, to->token);
	if (r == 0)
		r = derive(secret, "tsshim peer 1: name of the secret", key);
	if (r == 0) {
		memcpy(&to->id, key, sizeof(to->id));
		secrets->count++;
	}
	OPENSSL_cleanse(key, sizeof(key));
	return r;
}

static int parse(const char *text, size_t bytes, struct ts_secrets *secrets)
{
	unsigned char secret[TS_SECRET_BYTES];
	const char *end = text + bytes;
	int r = bytes == 0 ? -EINVAL : 0;

	while (r == 0 && text < end) {
		if (secrets->count == TS_SECRETS_MAX || end - text < LINE)
			r = -EINVAL;
		if (r == 0)
			r = read_line(text, secret);
		if (r == 0)
			r = add(secrets, secret);
		/* The last line may lack its end. */
		if (r == 0 && text + LINE < end && text[LINE] != '\n')
			r = -EINVAL;
		if (r == 0)
			text += LINE + (text + LINE < end);
	}
	OPENSSL_cleanse(secret, sizeof(secret));
	if (r == 0 && secrets->count == 2 && secrets->keys[0].id == secrets->keys[1].id)
		r = -EINVAL; /* twice the same: a mistake in exchanging them */
	return r;
}

int ts_secrets_parse(const char *text, size_t bytes, struct ts_secrets *ret_secrets)
{
	memset(ret_secrets, 0, sizeof(*ret_secrets));
	int r = parse(text, bytes, ret_secrets);

	if (r < 0)
		ts_secrets_finish(ret_secrets);
	return r;
}

/* The file as it was opened, so that nobody exchanges it between two looks. */
static int check_file(int fd)
{
	struct stat st;
	int r = ts_sys_fstat(fd, &st);

	if (r < 0)
		return r;
	if (!S_ISREG(st.st_mode) || st.st_size > FILE_MAX)
		return -EINVAL;
	if (st.st_uid != geteuid() || (st.st_mode & (S_IRWXG | S_IRWXO)) != 0)
		return -EPERM;
	return 0;
}

int ts_secrets_read(const char *path, struct ts_secrets *ret_secrets)
{
	char text[FILE_MAX + 1];
	int64_t bytes = 0;

	memset(ret_secrets, 0, sizeof(*ret_secrets));
	/* Not blocking: it may be a pipe that nobody writes to. */
	int fd =
		ts_sys_open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0);
	if (fd < 0)
		return fd;
	int r = check_file(fd);
	if (r == 0)
		bytes = ts_sys_pread(fd, text, FILE_MAX, 0);
	if (r == 0 && bytes < 0)
		r = (int)bytes;
	ts_sys_close(fd);
	if (r == 0) {
		text[bytes] = '\0';
		r = ts_secrets_parse(text, (size_t)bytes, ret_secrets);
	}
	OPENSSL_cleanse(text, sizeof(text));
	return r;
}

void ts_secrets_finish(struct ts_secrets *secrets)
{
	OPENSSL_cleanse(secrets, sizeof(*secrets));
}
