/* SPDX-License-Identifier: MIT */
/* Listings that jobs share: finding them, believing them, making them. */
#include "leader/files/listing.h"

#include "leader/files/index_private.h"
#include "leader/files/stage_private.h"
#include "shim/hash.h"
#include "shim/log.h"
#include "shim/scratch.h"
#include "shim/sys.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAGIC UINT64_C(0x7473736c69737431) /* "tsslist1" */

/* What the kernel is asked for at once, and room for as much is there. */
#define PIECE (UINT64_C(64) << 10)

#define FIRST_MAP (2 * PIECE)

/* Entries of a piece behind which there may be more of them. */
#define MANY_ENTRIES 64u

/* How a listing's file begins; its entries follow. */
struct header {
	uint64_t magic, bytes, asked_ms, rights;
	uint64_t device, inode, size;
	int64_t modified_s, modified_ns, changed_s, changed_ns;
	struct ts_hash128 entries;
	uint64_t check; /* ts_hash64 of everything above */
};

#define NAME_AT offsetof(struct dirent64, d_name)

static void fill_header(const struct ts_stage_directory *directory, uint64_t asked_ms,
	const char *entries, uint64_t bytes, struct header *ret_header)
{
	const struct stat *st = directory->stat;

	*ret_header = (struct header){
		.magic = MAGIC,
		.bytes = bytes,
		.asked_ms = asked_ms,
		.rights = directory->rights,
		.device = st->st_dev,
		.inode = st->st_ino,
		.size = (uint64_t)st->st_size,
		.modified_s = st->st_mtim.tv_sec,
		.modified_ns = st->st_mtim.tv_nsec,
		.changed_s = st->st_ctim.tv_sec,
		.changed_ns = st->st_ctim.tv_nsec,
		.entries = ts_hash128(entries, bytes),
	};
	ret_header->check = ts_hash64(ret_header, offsetof(struct header, check));
}

/*
 * The name is that of a copy of a file whose path ends with what no path of a file does: so
 * the times are in it, and a directory that has changed has another listing.
 */
static int path_of(const struct ts_stage *stage, const struct ts_stage_directory *directory,
	char ret_path[TS_STAGE_PATH])
{
	char *text TS_SCRATCH = ts_scratch();
	struct ts_stage_source source = {.fd = -1, .stat = directory->stat, .path = text};
	size_t length = strnlen(directory->path, PATH_MAX);

	if (!text)
		return -ENOMEM;
	if (length + 20 >= PATH_MAX)
		return -ENAMETOOLONG;
	ts_format(text, PATH_MAX, "%s//%llx", directory->path,
		(unsigned long long)directory->rights);
	ts_stage_path_of(stage, &source, ret_path);
	return 0;
}

/* ---- memory ----------------------------------------------------------------------------- */

void ts_stage_listing_finish(struct ts_stage_listing *listing)
{
	int saved = errno;

	if (listing->map)
		munmap(listing->map, listing->map_bytes);
	listing->map = NULL;
	errno = saved;
}

static int map_memory(struct ts_stage_listing *listing, uint64_t bytes)
{
	int saved = errno;
	void *map =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	errno = saved;
	if (map == MAP_FAILED)
		return -ENOMEM;
	*listing = (struct ts_stage_listing){.map = map, .map_bytes = bytes};
	return 0;
}

/* Room for another piece. Errors: -EFBIG; -ENOMEM. */
static int grow(struct ts_stage_listing *listing)
{
	int saved = errno;

	if (listing->map_bytes - listing->bytes >= PIECE)
		return 0;
	if (listing->map_bytes * 2 > TS_STAGE_LISTING_BYTES)
		return -EFBIG;
	void *map = mremap(
		listing->map, listing->map_bytes, listing->map_bytes * 2, MREMAP_MAYMOVE);
	errno = saved;
	if (map == MAP_FAILED)
		return -ENOMEM;
	listing->map = map;
	listing->map_bytes *= 2;
	return 0;
}

/* ---- believing -------------------------------------------------------------------------- */

/*
 * Whether these are entries that readdir(3) hands out as they are: one behind the other,
 * aligned, with names that end in them and fit struct dirent; *ret_last is where the last one
 * says that the next begins.  Of those with inode 0, C libraries think differently.
 */
static bool are_entries(const char *entries, uint64_t bytes, int64_t *ret_last)
{
	for (uint64_t at = 0; at < bytes;) {
		const struct dirent64 *entry = (const void *)(entries + at);
		if (bytes - at < NAME_AT + 2 || entry->d_reclen < NAME_AT + 2 ||
			entry->d_reclen > bytes - at || entry->d_reclen % 8 != 0 ||
			entry->d_reclen > sizeof(struct dirent) || entry->d_ino == 0 ||
			entry->d_name[0] == '\0' ||
			!memchr(entry->d_name, '\0',
				ts_min_u64(entry->d_reclen - NAME_AT, NAME_MAX + 1)))
			return false;
		*ret_last = entry->d_off;
		at += entry->d_reclen;
	}
	return true;
}

static bool is_wanted(const struct ts_stage *stage, const struct ts_stage_directory *directory,
	const struct header *header)
{
	const struct stat *st = directory->stat;

	return header->magic == MAGIC &&
	       header->check == ts_hash64(header, offsetof(struct header, check)) &&
	       header->rights == directory->rights && header->device == st->st_dev &&
	       header->inode == st->st_ino && header->size == (uint64_t)st->st_size &&
	       header->modified_s == st->st_mtim.tv_sec &&
	       header->modified_ns == st->st_mtim.tv_nsec &&
	       header->changed_s == st->st_ctim.tv_sec &&
	       header->changed_ns == st->st_ctim.tv_nsec &&
	       ts_stage_names_still_hold(&stage->index, header->asked_ms, directory->seconds);
}

/* Checked in memory that nobody else can change. */
static int load_entries(
	int fd, const struct header *header, struct ts_stage_listing *ret_listing)
{
	struct ts_stage_listing listing;
	int64_t last;
	int r = map_memory(&listing, ts_align_up(header->bytes, TS_PAGE_BYTES));

	if (r < 0)
		return r;
	listing.bytes = header->bytes;
	listing.is_complete = true;
	r = ts_sys_read_all(fd, listing.map, listing.bytes, sizeof(*header));
	if (r == 0) {
		struct ts_hash128 hash = ts_hash128(listing.map, listing.bytes);
		if (hash.lo != header->entries.lo || hash.hi != header->entries.hi ||
			!are_entries(listing.map, listing.bytes, &last))
			r = -ENOENT;
	}
	if (r < 0)
		ts_stage_listing_finish(&listing);
	else
		*ret_listing = listing;
	return r;
}

/* Errors: -ENOENT none that counts; -EFBIG one that says that it was too large to be made. */
static int load(struct ts_stage *stage, const struct ts_stage_directory *directory,
	const char *path, struct ts_stage_listing *ret_listing)
{
	struct header header;
	struct stat st;
	int fd =
		ts_sys_open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0);

	if (fd < 0)
		return fd;
	int r = ts_sys_fstat(fd, &st);
	if (r == 0 && (st.st_mode != (S_IFREG | 0400) || st.st_uid != stage->index.uid))
		r = -EPERM;
	if (r == 0)
		r = ts_sys_read_all(fd, &header, sizeof(header), 0);
	if (r == 0 && (!is_wanted(stage, directory, &header) ||
			      header.bytes > TS_STAGE_LISTING_BYTES ||
			      (uint64_t)st.st_size != sizeof(header) + header.bytes))
		r = -ENOENT;
	if (r == 0)
		r = header.bytes > 0 ? load_entries(fd, &header, ret_listing) : -EFBIG;
	ts_sys_close(fd);
	return r == -ESTALE ? -ENOENT : r; /* cut short */
}

/* ---- making ----------------------------------------------------------------------------- */

/*
 * FUSE tells attributes with the names only while somebody looks at what it has told
 * (FUSE_READDIRPLUS_AUTO).  A program that will ask for them would have looked in between; so
 * that it does not have to ask for each by itself then, one of a piece with many is found here:
 * no request where the attributes came with it, and one for the piece where they did not.
 */
static void keep_attributes_coming(int fd, const char *entries, uint64_t bytes)
{
	const char *last = NULL;
	uint32_t count = 0;

	for (uint64_t at = 0; at < bytes; count++) {
		const struct dirent64 *entry = (const void *)(entries + at);
		if (entry->d_name[0] != '.')
			last = entry->d_name;
		at += entry->d_reclen;
	}
	if (last && count >= MANY_ENTRIES)
		(void)ts_sys_find(fd, last);
}

/*
 * Read to the end.  Somebody else who reads from the same open directory at the same time
 * would take entries away from us; the position shows it.  What is not the end is an error:
 * that of the storage, or -EFBIG, -ENOMEM, -ETIME, -ESTALE.
 */
static int fill(int fd, struct ts_stage_listing *listing)
{
	uint64_t start = ts_now_ns();
	int64_t position = 0;

	for (;;) {
		int r = grow(listing);
		if (r == 0 && ts_now_ns() - start > TS_STAGE_LISTING_NS)
			r = -ETIME;
		if (r == 0 && ts_sys_seek(fd, 0, SEEK_CUR) != position)
			r = -ESTALE;
		if (r < 0)
			return r;
		char *to = listing->map + listing->bytes;
		int64_t n = ts_sys_list(fd, to, PIECE);
		TS_KILLPOINT(listing_piece);
		if (n <= 0)
			return (int)n;
		if (!are_entries(to, (uint64_t)n, &position))
			return -ENOTSUP;
		listing->bytes += (uint64_t)n;
		keep_attributes_coming(fd, to, (uint64_t)n);
	}
}

static int write_all(int part, const void *from, uint64_t bytes, uint64_t at)
{
	for (uint64_t done = 0; done < bytes;) {
		int64_t n =
			ts_sys_pwrite(part, (const char *)from + done, bytes - done, at + done);
		if (n == 0 || (n < 0 && n != -EINTR))
			return n < 0 ? (int)n : -ENOSPC;
		done += n > 0 ? (uint64_t)n : 0;
	}
	return 0;
}

/* What a killed holder of the .part had written goes, and then the room that it took. */
static int empty(struct ts_stage *stage, int part)
{
	struct stat st;
	int r = ts_sys_fstat(part, &st);

	if (r == 0)
		r = ts_sys_fchmod(part, 0600);
	if (r == 0 && st.st_size > 0) {
		r = ts_sys_ftruncate(part, 0);
		if (r == 0)
			ts_stage_index_return(&stage->index, (uint64_t)st.st_size);
	}
	return r;
}

static int write_part(struct ts_stage *stage, int part, const struct header *header,
	const char *entries, bool *admitted)
{
	uint64_t bytes = sizeof(*header) + header->bytes;
	int r = empty(stage, part);

	if (r == 0 && !ts_limits_allow_file(bytes))
		r = -ENOSPC;
	if (r == 0)
		r = ts_stage_index_admit(&stage->index, stage->capacity, bytes);
	*admitted = r == 0;
	TS_KILLPOINT(listing_admitted);
	/* First its size, by which the next one knows what was admitted. */
	if (r == 0)
		r = ts_sys_ftruncate(part, bytes);
	TS_KILLPOINT(listing_sized);
	if (r == 0)
		r = write_all(part, header, sizeof(*header), 0);
	TS_KILLPOINT(listing_headed);
	if (r == 0)
		r = write_all(part, entries, header->bytes, sizeof(*header));
	TS_KILLPOINT(listing_written);
	return r < 0 ? r : ts_sys_fchmod(part, 0400);
}

/* Give the listing its name, in the place of an old one.  Without room others do without. */
static void publish(struct ts_stage *stage, const struct header *header, int part,
	const char *part_path, const char *path, const char *entries)
{
	struct stat old = {.st_size = 0};
	bool admitted = false;
	int r = write_part(stage, part, header, entries, &admitted);

	TS_KILLPOINT(listing_finished);
	/* Only who holds the lock puts a file there. */
	(void)ts_sys_lstat(path, &old);
	if (r == 0)
		r = ts_sys_rename(part_path, path);
	TS_KILLPOINT(listing_renamed);
	if (r == 0) {
		ts_stage_index_return(&stage->index, (uint64_t)old.st_size);
		return;
	}
	(void)ts_sys_unlink(part_path);
	if (admitted)
		ts_stage_index_return(&stage->index, sizeof(*header) + header->bytes);
}

/* With the lock of the .part. */
static int make_locked(struct ts_stage *stage, const struct ts_stage_directory *directory,
	int part, const char *part_path, const char *path, struct ts_stage_listing *ret_listing)
{
	struct ts_stage_listing listing;
	struct header header;
	uint64_t asked_ms = ts_stage_now_ms();
	/* Another one may have made it between our look and the lock. */
	int r = load(stage, directory, path, ret_listing);

	if (r != -ENOENT) {
		(void)ts_sys_unlink(part_path);
		return r;
	}
	r = map_memory(&listing, FIRST_MAP);
	int end = r == 0 ? fill(directory->fd, &listing) : r;
	TS_KILLPOINT(listing_filled);
	if (r == 0 && end == -ENOTSUP) {
		r = (int)ts_sys_seek(directory->fd, 0, SEEK_SET) < 0 ? -EIO : end;
		ts_stage_listing_finish(&listing);
	}
	if (r == 0 && (end == -EFBIG || end == -ETIME || (end == 0 && listing.bytes > 0))) {
		uint64_t bytes = end == 0 ? listing.bytes : 0;
		fill_header(directory, asked_ms, listing.map, bytes, &header);
		publish(stage, &header, part, part_path, path, listing.map);
	} else {
		(void)ts_sys_unlink(part_path);
	}
	if (r < 0)
		return r;
	listing.is_complete = end == 0;
	*ret_listing = listing;
	return 0;
}

static int make(struct ts_stage *stage, const struct ts_stage_directory *directory,
	const char *path, struct ts_stage_listing *ret_listing)
{
	char part_path[TS_STAGE_PATH];
	int part;

	if (!directory->may_make || geteuid() != stage->index.uid)
		return -EPERM;
	ts_format(part_path, sizeof(part_path), "%s.part", path);
	int r = ts_stage_lock_part(part_path, &part);
	if (r < 0)
		return r;
	TS_KILLPOINT(listing_locked);
	r = make_locked(stage, directory, part, part_path, path, ret_listing);
	ts_stage_release_part(part);
	return r;
}

int ts_stage_listing_open(struct ts_stage *stage, const struct ts_stage_directory *directory,
	uint64_t wait_ns, struct ts_stage_listing *ret_listing)
{
	uint64_t start = ts_now_ns(), nap = TS_STAGE_NAP_MIN_NS;
	char *path TS_SCRATCH = ts_scratch();
	int r = path ? path_of(stage, directory, path) : -ENOMEM;

	while (r == 0) {
		r = load(stage, directory, path, ret_listing);
		if (r != -ENOENT)
			return r;
		r = make(stage, directory, path, ret_listing);
		if ((r != -EBUSY && r != -EAGAIN) || ts_now_ns() - start >= wait_ns)
			return r;
		ts_stage_nap(&nap);
		r = 0;
	}
	return r;
}
