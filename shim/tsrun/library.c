/* SPDX-License-Identifier: MIT */
/* Where the library and the command are, and what ELF headers say about preloading. */
#include "shim/tsrun/library.h"

#include "shim/hash.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "tsrun-config.h"

#if HAVE_LIBELF
#include <gelf.h>
#include <libelf.h>
#endif

/* From the directory of the installed tsrun to the library; set by meson from its options. */
#ifndef TS_LIBRARY_FROM_BINDIR
#error "TS_LIBRARY_FROM_BINDIR is defined by shim/tsrun/meson.build"
#endif

#define BUILD_PLACE "/shim/tsrun" /* of tsrun in a build directory, as meson lays it out */

/* ---- paths, and the value of LD_PRELOAD -------------------------------------------------- */

static bool ends_with(const char *text, size_t length, const char *end)
{
	size_t end_length = strlen(end);
	return length >= end_length && memcmp(text + length - end_length, end, end_length) == 0;
}

/* Join and resolve; a file that is not there keeps its unresolved path for the message. */
static int try_place(
	const char *directory, size_t length, const char *rest, char ret_path[PATH_MAX])
{
	char path[PATH_MAX];
	if (snprintf(path, sizeof(path), "%.*s/%s", (int)length, directory, rest) >=
		(int)sizeof(path))
		return -ENAMETOOLONG;
	if (realpath(path, ret_path))
		return 0;
	memcpy(ret_path, path, strlen(path) + 1);
	return -ENOENT;
}

int ts_library_find(const char *program, char ret_path[PATH_MAX])
{
	const char *slash = strrchr(program, '/');
	if (program[0] != '/' || !slash)
		return -ENOENT;
	size_t length = (size_t)(slash - program);

	/* Only a directory of this very name: an installed bin/ must never look elsewhere. */
	if (ends_with(program, length, BUILD_PLACE) &&
		try_place(program, length - strlen(BUILD_PLACE), "libtsshim.so", ret_path) == 0)
		return 0;
	return try_place(program, length, TS_LIBRARY_FROM_BINDIR, ret_path);
}

int ts_library_own(char ret_program[PATH_MAX])
{
	ssize_t length = readlink("/proc/self/exe", ret_program, PATH_MAX - 1);

	if (length < 0)
		return -errno;
	ret_program[length] = '\0';
	return 0;
}

int ts_library_beside(const char *name, char ret_path[PATH_MAX])
{
	char program[PATH_MAX], library[PATH_MAX];
	int r = ts_library_own(program);

	if (r == 0)
		r = ts_library_find(program, library);
	/* Where it should be is known without it. */
	if (r < 0 && r != -ENOENT)
		return r;
	char *slash = strrchr(library, '/');
	if (!slash || snprintf(ret_path, PATH_MAX, "%.*s/%s", (int)(slash - library), library,
			      name) >= PATH_MAX)
		return -ENAMETOOLONG;
	return 0;
}

int ts_library_which(const char *command, char ret_path[PATH_MAX])
{
	if (strchr(command, '/')) {
		if (strlen(command) >= PATH_MAX)
			return -ENAMETOOLONG;
		memcpy(ret_path, command, strlen(command) + 1);
		return access(command, X_OK) == 0 ? 0 : -errno;
	}

	char standard[256] = "/bin:/usr/bin";
	const char *path = getenv("PATH");
	if (!path) {
		(void)confstr(_CS_PATH, standard, sizeof(standard));
		path = standard;
	}
	int result = -ENOENT;
	for (;;) {
		size_t length = strcspn(path, ":");
		char candidate[PATH_MAX];
		/* An empty element is the working directory; execvp(3) thinks so too. */
		int written = snprintf(candidate, sizeof(candidate), "%.*s%s%s", (int)length,
			path, length > 0 ? "/" : "./", command);
		struct stat st;
		if (written < PATH_MAX && stat(candidate, &st) == 0 && S_ISREG(st.st_mode)) {
			if (access(candidate, X_OK) == 0) {
				memcpy(ret_path, candidate, (size_t)written + 1);
				return 0;
			}
			result = -EACCES;
		}
		if (path[length] == '\0')
			return result;
		path += length + 1;
	}
}

/*
 * Whether the entry of LD_PRELOAD is the shim already: the same file, or another copy of it
 * (an outer tsrun of another installation); two copies in one process would both hook.
 */
static bool is_shim(const char *entry, size_t length, const char *library)
{
	char path[PATH_MAX];
	struct stat theirs, ours;

	if (length == 0 || length >= sizeof(path))
		return false;
	memcpy(path, entry, length);
	path[length] = '\0';
	/* A bare name is searched for by ld.so, which loads a file once at most anyway. */
	const char *slash = strrchr(path, '/');
	if (!slash || stat(path, &theirs) < 0)
		return false;
	if (stat(library, &ours) == 0 && theirs.st_dev == ours.st_dev &&
		theirs.st_ino == ours.st_ino)
		return true;
	const char *name = slash + 1;
	return strncmp(name, "libtsshim", strlen("libtsshim")) == 0 &&
	       ends_with(name, strlen(name), ".so");
}

/* ---- a path that ld.so can be told ------------------------------------------------------- */

/* Blank and colon separate the entries for ld.so, which expands '$'; nothing quotes them. */
static bool can_be_said(const char *path)
{
	return path[strcspn(path, " :$")] == '\0';
}

/* Whether nobody but this user can change what lies in @directory. */
static bool is_own(const char *directory)
{
	struct stat st;

	return lstat(directory, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
	       (st.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/* Where links lie: ${XDG_STATE_HOME:-$HOME/.local/state}/tsshim, made where it is missing. */
static int find_links(char ret_directory[PATH_MAX])
{
	const char *base = getenv("XDG_STATE_HOME"), *below = "/tsshim";

	if (!base || base[0] != '/') {
		base = getenv("HOME");
		below = "/.local/state/tsshim";
	}
	if (!base || base[0] != '/' || !can_be_said(base) ||
		snprintf(ret_directory, PATH_MAX, "%s%s", base, below) >= PATH_MAX)
		return -EINVAL;
	for (char *at = strchr(ret_directory + 1, '/'); at; at = strchr(at + 1, '/')) {
		*at = '\0';
		(void)mkdir(ret_directory, 0700);
		*at = '/';
	}
	(void)mkdir(ret_directory, 0700);
	return is_own(ret_directory) ? 0 : -EINVAL;
}

/*
 * A name of @library that ld.so can be told: through a symbolic link to its directory, which
 * stays, for children of the job start at any time.  The link is named for the directory, so
 * jobs of one installation have one; it is written anew where it leads elsewhere.
 */
static int link_to(const char *library, char ret_path[PATH_MAX])
{
	char links[PATH_MAX], link[PATH_MAX], made[PATH_MAX + 16], target[PATH_MAX];
	const char *slash = strrchr(library, '/');
	size_t length = slash ? (size_t)(slash - library) : 0;

	if (!slash || !can_be_said(slash) || find_links(links) < 0)
		return -EINVAL;
	int bytes = snprintf(link, sizeof(link), "%s/library-%016" PRIx64, links,
		ts_hash64(library, length));
	if (bytes >= (int)sizeof(link) || length >= sizeof(target) ||
		snprintf(ret_path, PATH_MAX, "%s%s", link, slash) >= PATH_MAX)
		return -EINVAL;
	ssize_t got = readlink(link, target, sizeof(target));
	if (got == (ssize_t)length && memcmp(target, library, length) == 0)
		return 0;
	memcpy(target, library, length);
	target[length] = '\0';
	(void)snprintf(made, sizeof(made), "%s.%d", link, (int)getpid());
	if (symlink(target, made) < 0)
		return -EINVAL;
	if (rename(made, link) < 0) {
		(void)unlink(made);
		return -EINVAL;
	}
	return 0;
}

int ts_library_compose(const char *present, const char *library, char **ret_value)
{
	static const char separators[] = " :";
	char linked[PATH_MAX];

	if (!present)
		present = "";
	bool empty = true;
	for (const char *p = present; *p;) {
		size_t length = strcspn(p, separators);
		if (is_shim(p, length, library)) {
			*ret_value = NULL;
			return 0;
		}
		if (length > 0)
			empty = false;
		p += length;
		p += strspn(p, separators);
	}
	if (!can_be_said(library)) {
		if (link_to(library, linked) < 0)
			return -EINVAL;
		library = linked;
	}
	char *value = NULL;
	if (asprintf(&value, "%s%s%s", empty ? "" : present, empty ? "" : ":", library) < 0)
		return -ENOMEM;
	*ret_value = value;
	return 0;
}

/* ---- ELF headers ------------------------------------------------------------------------- */

/* What we want to know about an ELF file. */
struct image {
	bool elf;
	unsigned char elf_class;
	unsigned machine, type;
	bool interpreter; /* names a dynamic linker */
	bool soname;      /* has a name as a library, as the dynamic linker itself has */
	bool musl;        /* ... and that is musl's */
	bool asan;        /* is linked with a shared AddressSanitizer */
};

#if HAVE_LIBELF
/* Where in the file the address @address lies; -1 when it is not from the file. */
static off_t place_of(Elf *elf, GElf_Addr address)
{
	GElf_Phdr segment;

	for (int i = 0; gelf_getphdr(elf, i, &segment); i++)
		if (segment.p_type == PT_LOAD && address >= segment.p_vaddr &&
			address - segment.p_vaddr < segment.p_filesz)
			return (off_t)(address - segment.p_vaddr + segment.p_offset);
	return -1;
}

/* Of the sonames of AddressSanitizer's library, gcc's and clang's. */
static bool is_asan(const char *name)
{
	return strncmp(name, "libasan.so", 10) == 0 ||
	       strncmp(name, "libclang_rt.asan", 16) == 0;
}

/* Whether one of the libraries that @data names is AddressSanitizer's. */
static bool needs_asan(int fd, Elf *elf, Elf_Data *data, GElf_Addr strings)
{
	GElf_Dyn entry;
	char name[32];
	off_t place = place_of(elf, strings);

	for (int i = 0; place >= 0 && gelf_getdyn(data, i, &entry) && entry.d_tag != DT_NULL;
		i++) {
		if (entry.d_tag != DT_NEEDED)
			continue;
		ssize_t got =
			pread(fd, name, sizeof(name) - 1, place + (off_t)entry.d_un.d_val);
		name[got > 0 ? got : 0] = '\0';
		if (is_asan(name))
			return true;
	}
	return false;
}

static void read_dynamic(int fd, Elf *elf, const GElf_Phdr *segment, struct image *image)
{
	Elf_Data *data = elf_getdata_rawchunk(
		elf, (int64_t)segment->p_offset, segment->p_filesz, ELF_T_DYN);
	GElf_Addr strings = 0;
	if (!data)
		return;
	GElf_Dyn entry;
	for (int i = 0; gelf_getdyn(data, i, &entry) && entry.d_tag != DT_NULL; i++) {
		if (entry.d_tag == DT_SONAME)
			image->soname = true;
		else if (entry.d_tag == DT_STRTAB)
			strings = entry.d_un.d_ptr;
	}
	image->asan = needs_asan(fd, elf, data, strings);
}

static void read_interpreter(int fd, const GElf_Phdr *segment, struct image *image)
{
	char name[256] = "";
	size_t bytes =
		segment->p_filesz < sizeof(name) - 1 ? segment->p_filesz : sizeof(name) - 1;
	image->interpreter = true;
	if (pread(fd, name, bytes, (off_t)segment->p_offset) > 0)
		image->musl = strstr(name, "/ld-musl-") != NULL;
}

/* Open the ELF file @path, for close_elf().  NULL: it is none, or cannot be read. */
static Elf *open_elf(const char *path, int *ret_fd)
{
	Elf *elf = NULL;

	*ret_fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (*ret_fd >= 0 && elf_version(EV_CURRENT) != EV_NONE)
		elf = elf_begin(*ret_fd, ELF_C_READ_MMAP, NULL);
	if (elf && elf_kind(elf) == ELF_K_ELF)
		return elf;
	(void)elf_end(elf);
	if (*ret_fd >= 0)
		(void)close(*ret_fd);
	return NULL;
}

static void close_elf(Elf *elf, int fd)
{
	(void)elf_end(elf);
	(void)close(fd);
}

/* `elf` stays false where it is no ELF file. */
static struct image image_of(const char *path)
{
	struct image image = {.elf = false};
	GElf_Ehdr header;
	GElf_Phdr segment;
	int fd;
	Elf *elf = open_elf(path, &fd);

	if (!elf)
		return image;
	if (gelf_getehdr(elf, &header)) {
		image.elf = true;
		image.elf_class = header.e_ident[EI_CLASS];
		image.machine = header.e_machine;
		image.type = header.e_type;
		for (int i = 0; gelf_getphdr(elf, i, &segment); i++) {
			if (segment.p_type == PT_INTERP)
				read_interpreter(fd, &segment, &image);
			else if (segment.p_type == PT_DYNAMIC)
				read_dynamic(fd, elf, &segment, &image);
		}
	}
	close_elf(elf, fd);
	return image;
}

static bool same_kind(const struct image *a, const struct image *b)
{
	return a->elf_class == b->elf_class && a->machine == b->machine;
}

/* AddressSanitizer looks who is loaded first, unless it is told not to or is that itself. */
static bool minds_the_order(void)
{
	const char *options = getenv("ASAN_OPTIONS"), *preload = getenv("LD_PRELOAD");

	return !(options && strstr(options, "verify_asan_link_order=0")) &&
	       !(preload && (strstr(preload, "/libasan.so") ||
				    strstr(preload, "/libclang_rt.asan")));
}

static const char *check_image(const char *path, const char *program)
{
	struct image library = image_of(path), reference = image_of(program);

	if (!library.elf)
		return "it is no ELF file";
	if (library.type != ET_DYN)
		return "it is no shared library";
	if (reference.elf && !same_kind(&library, &reference))
		return "it is made for another kind of machine than tsrun";
	return NULL;
}

static enum ts_preload_verdict judge_image(const char *path, const char *reference_path)
{
	struct image image = image_of(path), reference = image_of(reference_path);

	if (!image.elf)
		return TS_PRELOAD_WORKS;
	if (reference.elf && !same_kind(&image, &reference))
		return TS_PRELOAD_MACHINE;
	if (image.musl)
		return TS_PRELOAD_LIBC;
	if (image.asan && minds_the_order())
		return TS_PRELOAD_FIRST;
	/* The dynamic linker started as a command names no interpreter but honours preloads. */
	if (!image.interpreter && !image.soname)
		return TS_PRELOAD_STATIC;
	return TS_PRELOAD_WORKS;
}

/* Call @visit for the sections of @path until it returns true. */
static int each_section(const char *path,
	bool (*visit)(Elf *elf, Elf_Scn *section, const GElf_Shdr *header, void *data),
	void *data)
{
	Elf_Scn *section = NULL;
	GElf_Shdr header;
	int fd;
	Elf *elf = open_elf(path, &fd);

	if (!elf)
		return -EIO;
	while ((section = elf_nextscn(elf, section)) != NULL)
		if (gelf_getshdr(section, &header) && visit(elf, section, &header, data))
			break;
	close_elf(elf, fd);
	return 0;
}

struct mark_search {
	struct ts_mark mark;
	bool found;
};

static bool read_mark(Elf *elf, Elf_Scn *section, const GElf_Shdr *header, void *data)
{
	struct mark_search *search = data;
	size_t names;

	if (elf_getshdrstrndx(elf, &names) < 0)
		return true;
	const char *name = elf_strptr(elf, names, header->sh_name);
	if (!name || strcmp(name, TS_MARK_SECTION) != 0)
		return false;
	const Elf_Data *bytes = elf_rawdata(section, NULL);
	if (bytes && bytes->d_buf && bytes->d_size >= sizeof(search->mark)) {
		memcpy(&search->mark, bytes->d_buf, sizeof(search->mark));
		search->mark.version[sizeof(search->mark.version) - 1] = '\0';
		search->found = search->mark.type == TS_MARK_TYPE &&
				memcmp(search->mark.owner, TS_MARK_OWNER,
					sizeof(search->mark.owner)) == 0;
	}
	return true;
}

int ts_library_mark(const char *path, struct ts_mark *ret_mark)
{
	struct mark_search search = {.found = false};

	int r = each_section(path, read_mark, &search);
	if (r < 0)
		return r;
	if (!search.found)
		return -ENOENT;
	*ret_mark = search.mark;
	return 0;
}

/* Whether the table of dynamic symbols in @section has @wanted, defined or not. */
static bool has_symbol(Elf *elf, Elf_Scn *section, const GElf_Shdr *header, const char *wanted)
{
	Elf_Data *data = elf_getdata(section, NULL);
	GElf_Sym symbol;

	for (int i = 0; data && gelf_getsym(data, i, &symbol); i++) {
		const char *name = elf_strptr(elf, header->sh_link, symbol.st_name);
		if (name && strcmp(name, wanted) == 0)
			return true;
	}
	return false;
}

static bool contains(const Elf_Data *data, const char *text)
{
	return data && data->d_buf && memmem(data->d_buf, data->d_size, text, strlen(text));
}

static bool inspect_section(Elf *elf, Elf_Scn *section, const GElf_Shdr *header, void *data)
{
	struct ts_inspection *inspection = data;
	/* Constants, and nothing that is written to or run. */
	bool is_constant =
		header->sh_type == SHT_PROGBITS &&
		(header->sh_flags & (SHF_ALLOC | SHF_WRITE | SHF_EXECINSTR)) == SHF_ALLOC;

	if (header->sh_type == SHT_DYNSYM && has_symbol(elf, section, header, "Py_BytesMain"))
		inspection->python = true;
	/* Of the table of messages in every libjpeg (jerror.h); also where symbols are gone. */
	if (is_constant && contains(elf_rawdata(section, NULL),
				   "Not a JPEG file: starts with 0x%02x 0x%02x"))
		inspection->decoder = true;
	return false;
}

int ts_library_inspect(const char *path, struct ts_inspection *ret_inspection)
{
	struct ts_inspection inspection = {.python = false};

	int r = each_section(path, inspect_section, &inspection);
	if (r == 0)
		*ret_inspection = inspection;
	return r;
}
#else
static const char *check_image(const char *path, const char *program)
{
	return NULL;
}

static enum ts_preload_verdict judge_image(const char *path, const char *reference_path)
{
	return TS_PRELOAD_WORKS;
}

int ts_library_mark(const char *path, struct ts_mark *ret_mark)
{
	return -ENOTSUP;
}

int ts_library_inspect(const char *path, struct ts_inspection *ret_inspection)
{
	return -ENOTSUP;
}
#endif

const char *ts_library_check(const char *path, const char *program)
{
	struct stat st;
	struct statvfs fs;

	if (stat(path, &st) < 0 || !S_ISREG(st.st_mode))
		return "it is no regular file";
	if (access(path, R_OK) < 0)
		return "it cannot be read";
	if (statvfs(path, &fs) == 0 && (fs.f_flag & ST_NOEXEC))
		return "it lies on a file system that is mounted noexec";
	return check_image(path, program);
}

/*
 * Whether the kernel starts @path in secure mode, in which ld.so ignores preloads by path:
 * the ids change, or a user who is not root gains capabilities (capabilities(7)).
 */
static bool is_secure(const char *path)
{
	struct stat st;
	if (stat(path, &st) < 0)
		return false;
	if ((st.st_mode & S_ISUID) && st.st_uid != getuid())
		return true;
	if ((st.st_mode & S_ISGID) && (st.st_mode & S_IXGRP) && st.st_gid != getgid())
		return true;
	return getuid() != 0 && getxattr(path, "security.capability", NULL, 0) > 0;
}

bool ts_library_read_script(const char *path, char ret_line[PATH_MAX])
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return false;
	ssize_t got = read(fd, ret_line, PATH_MAX - 1);
	(void)close(fd);
	if (got < 3 || ret_line[0] != '#' || ret_line[1] != '!')
		return false;
	ret_line[got] = '\0';
	ret_line[strcspn(ret_line, "\r\n")] = '\0';
	const char *start = ret_line + 2 + strspn(ret_line + 2, " \t");
	memmove(ret_line, start, strlen(start) + 1);
	return ret_line[0] != '\0';
}

enum ts_preload_verdict ts_library_judge(const char *path, const char *reference)
{
	char program[PATH_MAX], next[PATH_MAX];

	if (strlen(path) >= sizeof(program))
		return TS_PRELOAD_WORKS;
	memcpy(program, path, strlen(path) + 1);
	/* The kernel follows scripts of scripts four times (BINPRM recursion in fs/exec.c);
	 * it ignores the set-id bits of all but the last one. */
	for (int depth = 0; depth < 5 && ts_library_read_script(program, next); depth++) {
		next[strcspn(next, " \t")] = '\0';
		memcpy(program, next, strlen(next) + 1);
	}
	if (is_secure(program))
		return TS_PRELOAD_SECURE;
	return judge_image(program, reference);
}

const char *ts_library_explain(enum ts_preload_verdict verdict)
{
	static const char *const why[] = {
		[TS_PRELOAD_WORKS] = NULL,
		[TS_PRELOAD_STATIC] = "is statically linked",
		[TS_PRELOAD_SECURE] = "is setuid, setgid or has capabilities",
		[TS_PRELOAD_MACHINE] = "is made for another kind of machine than tsrun",
		[TS_PRELOAD_LIBC] = "uses another C library (musl)",
		[TS_PRELOAD_FIRST] = "is linked with AddressSanitizer, which has to come first",
	};
	return why[verdict];
}

const char *ts_library_remedy(enum ts_preload_verdict verdict)
{
	static const char *const remedies[] = {
		[TS_PRELOAD_WORKS] = NULL,
		[TS_PRELOAD_STATIC] = "link it dynamically; programs that it starts can share",
		[TS_PRELOAD_SECURE] = "run it without these rights, as a user who needs none",
		[TS_PRELOAD_MACHINE] = "a tsshim for that machine",
		[TS_PRELOAD_LIBC] = "an image with glibc instead of Alpine's musl",
		[TS_PRELOAD_FIRST] = "set ASAN_OPTIONS=verify_asan_link_order=0",
	};
	return remedies[verdict];
}
