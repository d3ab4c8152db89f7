/* SPDX-License-Identifier: MIT */
/* What ELF files say of themselves, read with libelf. */
#include "shim/tsrun/inspect.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "tsrun-config.h"

#if HAVE_LIBELF
#include <gelf.h>
#include <libelf.h>

/* Of the table of messages in every libjpeg (jerror.h); also where the symbols are gone. */
#define LIBJPEG_MESSAGE "Not a JPEG file: starts with 0x%02x 0x%02x"

/* Call @visit for the sections of @path until it returns true. */
static int each_section(const char *path,
	bool (*visit)(Elf *elf, Elf_Scn *section, const GElf_Shdr *header, void *data),
	void *data)
{
	Elf *elf = NULL;
	Elf_Scn *section = NULL;
	GElf_Shdr header;

	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return -errno;
	if (elf_version(EV_CURRENT) != EV_NONE)
		elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	int r = elf && elf_kind(elf) == ELF_K_ELF ? 0 : -EIO;
	while (r == 0 && (section = elf_nextscn(elf, section)) != NULL)
		if (gelf_getshdr(section, &header) && visit(elf, section, &header, data))
			break;
	if (elf)
		(void)elf_end(elf);
	(void)close(fd);
	return r;
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

int ts_inspect_mark(const char *path, struct ts_mark *ret_mark)
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

static bool inspect_section(Elf *elf, Elf_Scn *section, const GElf_Shdr *header, void *data)
{
	struct ts_inspection *inspection = data;

	if (header->sh_type == SHT_DYNSYM && has_symbol(elf, section, header, "Py_BytesMain"))
		inspection->python = true;
	/* Constants, and nothing that is written to or run. */
	if (header->sh_type == SHT_PROGBITS &&
		(header->sh_flags & (SHF_ALLOC | SHF_WRITE | SHF_EXECINSTR)) == SHF_ALLOC) {
		const Elf_Data *bytes = elf_rawdata(section, NULL);
		if (bytes && bytes->d_buf &&
			memmem(bytes->d_buf, bytes->d_size, LIBJPEG_MESSAGE,
				sizeof(LIBJPEG_MESSAGE) - 1))
			inspection->decoder = true;
	}
	return false;
}

int ts_inspect_program(const char *path, struct ts_inspection *ret_inspection)
{
	struct ts_inspection inspection = {.python = false};

	int r = each_section(path, inspect_section, &inspection);
	if (r == 0)
		*ret_inspection = inspection;
	return r;
}
#else
int ts_inspect_mark(const char *path, struct ts_mark *ret_mark)
{
	(void)path;
	(void)ret_mark;
	return -ENOTSUP;
}

int ts_inspect_program(const char *path, struct ts_inspection *ret_inspection)
{
	(void)path;
	(void)ret_inspection;
	return -ENOTSUP;
}
#endif
