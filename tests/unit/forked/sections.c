/* SPDX-License-Identifier: MIT */
#include "sections.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* The program comes first. */
static int note_base(struct dl_phdr_info *info, size_t size, void *ret_base)
{
	(void)size;
	*(ElfW(Addr) *)ret_base = info->dlpi_addr;
	return 1;
}

int sections_find(const char *path, const char *name, struct section *ret_section)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat status;
	const ElfW(Ehdr) * file;
	const ElfW(Shdr) * sections;
	const char *names;
	ElfW(Addr) base = 0;

	if (fd < 0 || fstat(fd, &status) < 0)
		return -1;
	file = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (file == MAP_FAILED || memcmp(file->e_ident, ELFMAG, SELFMAG) != 0)
		return -1;
	sections = (const void *)((const char *)file + file->e_shoff);
	names = (const char *)file + sections[file->e_shstrndx].sh_offset;
	dl_iterate_phdr(note_base, &base);
	*ret_section = (struct section){0};
	for (unsigned i = 0; i < file->e_shnum; i++)
		if (strcmp(names + sections[i].sh_name, name) == 0) {
			ret_section->entries = (void *const *)(base + sections[i].sh_addr);
			ret_section->count = sections[i].sh_size / sizeof(void *);
		}
	munmap((void *)file, (size_t)status.st_size);
	return 0;
}
