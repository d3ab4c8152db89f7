/* SPDX-License-Identifier: MIT */
/* The file of a user's secret, and what is derived from it. */
#include "leader/peer/secret.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define OLD "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define NEW "FFeeddccbbaa99887766554433221100ffeeddccbbaa99887766554433221100"

static char folder[] = "/tmp/tsshim-secret-XXXXXX";
static char path[64];

static void begin(void)
{
	cr_assert(ne(ptr, mkdtemp(folder), NULL));
	snprintf(path, sizeof(path), "%s/secret", folder);
}

static void end(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf '%s'", folder);
	cr_expect(eq(int, system(command), 0));
}

TestSuite(secret, .init = begin, .fini = end);

static void put(const char *text, mode_t mode)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	cr_assert(ge(int, fd, 0));
	cr_assert(eq(int, (int)write(fd, text, strlen(text)), (int)strlen(text)));
	cr_assert(eq(int, fchmod(fd, mode), 0));
	close(fd);
}

static int read_it(void)
{
	struct ts_secrets secrets;
	int r = ts_secrets_read(path, &secrets);
	static const struct ts_secrets nothing;

	if (r < 0)
		cr_expect(eq(int, memcmp(&secrets, &nothing, sizeof(secrets)), 0));
	ts_secrets_finish(&secrets);
	return r;
}

Test(secret, each_use_has_its_own_key)
{
	struct ts_secrets one, two;

	put(OLD "\n", 0600);
	cr_assert(eq(int, ts_secrets_read(path, &one), 0));
	put(NEW "\n" OLD, 0400);
	cr_assert(eq(int, ts_secrets_read(path, &two), 0));
	cr_expect(eq(u32, one.count, 1));
	cr_expect(eq(u32, two.count, 2));
	cr_expect(eq(int, memcmp(&one.keys[0], &two.keys[1], sizeof(one.keys[0])), 0));
	cr_expect(ne(u32, two.keys[0].id, two.keys[1].id));
	/* HMAC-SHA-256, by another program: printf … | openssl dgst -mac HMAC -macopt hexkey:…
	 */
	cr_expect(eq(int,
			  memcmp(one.keys[0].token,
				  "5382f2cc7d8b7b666d067630f049fea312a90c4aeac2eb8bd43ff918afac"
				  "0828",
				  64),
			  0),
		"%s", one.keys[0].token);
}

Test(secret, a_file_that_others_may_use_is_refused)
{
	static const mode_t modes[] = {0640, 0604, 0620, 0602, 0666, 0610};

	for (size_t i = 0; i < TS_ARRAY_SIZE(modes); i++) {
		put(OLD "\n", modes[i]);
		cr_expect(eq(int, read_it(), -EPERM), "%o", (unsigned)modes[i]);
	}
	if (geteuid() != 0)
		return;
	put(OLD "\n", 0600);
	cr_assert(eq(int, chown(path, 12345, (gid_t)-1), 0));
	cr_expect(eq(int, read_it(), -EPERM));
}

Test(secret, what_is_no_file_is_refused)
{
	char other[80];

	put(OLD "\n", 0600);
	snprintf(other, sizeof(other), "%s.moved", path);
	cr_assert(eq(int, rename(path, other), 0));
	cr_expect(eq(int, read_it(), -ENOENT));
	cr_assert(eq(int, symlink(other, path), 0));
	cr_expect(eq(int, read_it(), -ELOOP));
	cr_assert(eq(int, unlink(path), 0));
	cr_assert(eq(int, mkfifo(path, 0600), 0));
	cr_expect(eq(int, read_it(), -EINVAL), "and does not wait for a writer");
	cr_assert(eq(int, unlink(path), 0));
	cr_assert(eq(int, mkdir(path, 0700), 0));
	cr_expect(eq(int, read_it(), -EINVAL));
}

static const char *const wrong[] = {"", "\n", OLD "\n\n", OLD OLD "\n", OLD " \n", OLD "\r\n",
	"0" OLD "\n", OLD "\n" OLD "\n", OLD "\n" NEW "\n" OLD "\n", OLD "\n" NEW "0",
	"g00102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n",
	"0g0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n"};

Test(secret, other_lines_are_refused)
{
	for (size_t i = 0; i < TS_ARRAY_SIZE(wrong); i++) {
		put(wrong[i], 0600);
		cr_expect(eq(int, read_it(), -EINVAL), "%zu", i);
	}
}
