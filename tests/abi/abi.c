/* SPDX-License-Identifier: MIT */
/* abi LIBRARY EXPORTS: what libtsshim.so may bring into every process.  Prints TAP. */
#include <fcntl.h>
#include <gelf.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* docs/cluster.md: the oldest C library that must be able to load it. */
#define GLIBC_MAJOR 2u
#define GLIBC_MINOR 28u

#define NAMES_MAX 256

static Elf *elf;
static int number, failures;

static void report(bool ok, const char *what)
{
	printf("%sok %d - %s\n", ok ? "" : "not ", ++number, what);
	failures += !ok;
}

/* The first section of @type at or behind @scn. */
static Elf_Scn *section(unsigned type, GElf_Shdr *ret_header)
{
	Elf_Scn *scn = NULL;
	while ((scn = elf_nextscn(elf, scn)) != NULL)
		if (gelf_getshdr(scn, ret_header) && ret_header->sh_type == type)
			return scn;
	return NULL;
}

/* Value of the dynamic entry @tag in *ret_value; false where there is none. */
static bool dynamic(int64_t tag, uint64_t *ret_value)
{
	GElf_Shdr header;
	GElf_Dyn entry;
	Elf_Scn *scn = section(SHT_DYNAMIC, &header);
	Elf_Data *data = scn ? elf_getdata(scn, NULL) : NULL;
	for (int i = 0; data && gelf_getdyn(data, i, &entry) && entry.d_tag != DT_NULL; i++)
		if (entry.d_tag == tag) {
			*ret_value = entry.d_un.d_val;
			return true;
		}
	return false;
}

static void check_needed(void)
{
	GElf_Shdr header;
	GElf_Dyn entry;
	bool ok = true, libc = false;
	Elf_Scn *scn = section(SHT_DYNAMIC, &header);
	Elf_Data *data = scn ? elf_getdata(scn, NULL) : NULL;
	for (int i = 0; data && gelf_getdyn(data, i, &entry) && entry.d_tag != DT_NULL; i++) {
		if (entry.d_tag != DT_NEEDED)
			continue;
		const char *name = elf_strptr(elf, header.sh_link, entry.d_un.d_val);
		bool is_libc = strcmp(name, "libc.so.6") == 0;
		libc |= is_libc;
		if (!is_libc && strncmp(name, "ld-linux", 8) != 0) {
			printf("# needs %s\n", name);
			ok = false;
		}
	}
	report(ok && libc, "needs the C library only");
}

static bool version_allowed(const char *version)
{
	unsigned major = 0, minor = 0;
	if (sscanf(version, "GLIBC_%u.%u", &major, &minor) < 1)
		return strncmp(version, "GLIBC_", 6) != 0;
	return major < GLIBC_MAJOR || (major == GLIBC_MAJOR && minor <= GLIBC_MINOR);
}

static void check_versions(void)
{
	GElf_Shdr header;
	bool ok = true;
	int seen = 0;
	Elf_Scn *scn = section(SHT_GNU_verneed, &header);
	Elf_Data *data = scn ? elf_getdata(scn, NULL) : NULL;
	GElf_Verneed need;
	for (int at = 0; data && gelf_getverneed(data, at, &need); at += (int)need.vn_next) {
		GElf_Vernaux aux;
		int aux_at = at + (int)need.vn_aux;
		for (unsigned i = 0; i < need.vn_cnt; i++, aux_at += (int)aux.vna_next) {
			if (!gelf_getvernaux(data, aux_at, &aux))
				break;
			const char *name = elf_strptr(elf, header.sh_link, aux.vna_name);
			seen++;
			if (!version_allowed(name)) {
				printf("# asks for %s\n", name);
				ok = false;
			}
		}
		if (!need.vn_next)
			break;
	}
	report(ok && seen > 0, "asks for no symbol newer than glibc 2.28");
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static size_t approved_names(const char *path, char *names[])
{
	static char lines[NAMES_MAX][80];
	FILE *file = fopen(path, "r");
	size_t count = 0;
	while (file && count < NAMES_MAX && fscanf(file, "%79s", lines[count]) == 1) {
		names[count] = lines[count];
		count++;
	}
	if (file)
		fclose(file);
	return count;
}

static size_t defined_names(char *names[], bool *ret_initial_exec)
{
	GElf_Shdr header;
	GElf_Sym symbol;
	size_t count = 0;
	Elf_Scn *scn = section(SHT_DYNSYM, &header);
	Elf_Data *data = scn ? elf_getdata(scn, NULL) : NULL;
	for (int i = 1; data && gelf_getsym(data, i, &symbol) && count < NAMES_MAX; i++) {
		char *name = elf_strptr(elf, header.sh_link, symbol.st_name);
		if (strcmp(name, "__tls_get_addr") == 0)
			*ret_initial_exec = false;
		if (symbol.st_shndx != SHN_UNDEF)
			names[count++] = name;
	}
	return count;
}

static void check_exports(const char *path)
{
	char *wanted[NAMES_MAX], *found[NAMES_MAX];
	bool initial_exec = true;
	size_t wants = approved_names(path, wanted),
	       finds = defined_names(found, &initial_exec);
	size_t w = 0, f = 0;
	bool ok = wants > 0;
	qsort(wanted, wants, sizeof(wanted[0]), compare_names);
	qsort(found, finds, sizeof(found[0]), compare_names);
	while (w < wants || f < finds) {
		int order = w == wants ? 1 : f == finds ? -1 : strcmp(wanted[w], found[f]);
		if (order != 0) {
			printf("# %s %s\n", order < 0 ? "lacks" : "exports",
				order < 0 ? wanted[w] : found[f]);
			ok = false;
		}
		w += order <= 0;
		f += order >= 0;
	}
	report(ok, "exports the approved names and no others");
	report(initial_exec, "calls no __tls_get_addr");
	GElf_Shdr header;
	report(!section(SHT_GNU_verdef, &header), "gives its names no version");
}

static void check_relocations(void)
{
	bool ok = true;
	Elf_Scn *scn = NULL;
	while ((scn = elf_nextscn(elf, scn)) != NULL) {
		GElf_Shdr header;
		GElf_Rela rela;
		gelf_getshdr(scn, &header);
		Elf_Data *data = header.sh_type == SHT_RELA ? elf_getdata(scn, NULL) : NULL;
		for (int i = 0; data && gelf_getrela(data, i, &rela); i++) {
			unsigned type = (unsigned)GELF_R_TYPE(rela.r_info);
#if defined(__x86_64__)
			ok &= type != R_X86_64_DTPMOD64 && type != R_X86_64_TLSDESC;
#elif defined(__aarch64__)
			ok &= type != R_AARCH64_TLS_DTPMOD && type != R_AARCH64_TLSDESC;
#else
			(void)type;
#endif
		}
	}
	report(ok, "uses initial-exec thread-local storage only");
}

static void check_segments(void)
{
	GElf_Phdr segment;
	uint64_t value = 0;
	bool stack = false, writable_code = false, tls_small = true;
	for (int i = 0; gelf_getphdr(elf, i, &segment); i++) {
		if (segment.p_type == PT_GNU_STACK)
			stack = !(segment.p_flags & PF_X);
		if (segment.p_type == PT_TLS)
			tls_small = segment.p_memsz <= 64;
		if (segment.p_type == PT_LOAD && (segment.p_flags & PF_W) &&
			(segment.p_flags & PF_X))
			writable_code = true;
	}
	report(stack, "asks for no executable stack");
	report(!writable_code, "has no segment that is writable and executable");
	report(tls_small, "needs at most 64 bytes of static thread-local storage");
	bool text = dynamic(DT_TEXTREL, &value) ||
		    (dynamic(DT_FLAGS, &value) && (value & DF_TEXTREL));
	report(!text, "has no text relocations");
	report(dynamic(DT_FLAGS_1, &value) && (value & DF_1_NODELETE) && (value & DF_1_NOW),
		"is never unloaded, and bound at once");
}

int main(int argc, char **argv)
{
	int fd = argc == 3 ? open(argv[1], O_RDONLY | O_CLOEXEC) : -1;
	if (fd < 0 || elf_version(EV_CURRENT) == EV_NONE ||
		!(elf = elf_begin(fd, ELF_C_READ, NULL)) || elf_kind(elf) != ELF_K_ELF) {
		fprintf(stderr, "usage: abi LIBRARY EXPORTS\n");
		return 2;
	}
	check_needed();
	check_versions();
	check_exports(argv[2]);
	check_relocations();
	check_segments();
	printf("1..%d\n", number);
	elf_end(elf);
	close(fd);
	return failures != 0;
}
