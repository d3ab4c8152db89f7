/* SPDX-License-Identifier: MIT */
/* cuGetProcAddress: from base names and versions to exported functions, by the table. */
#include "driver.h"

#include <string.h>

/* The functions themselves, without their types: only addresses are wanted. */
#define X(symbol, ...) extern const char address_##symbol[] __asm__(#symbol);
FAKE_PLAIN(X)
FAKE_PTDS(X)
FAKE_PTSZ(X)
#undef X
#define X(symbol, ...) extern const char address_##symbol##_ptds[] __asm__(#symbol "_ptds");
FAKE_PTDS(X)
#undef X
#define X(symbol, ...) extern const char address_##symbol##_ptsz[] __asm__(#symbol "_ptsz");
FAKE_PTSZ(X)
#undef X

/* Per-thread default streams came with 7.0. */
#define TWIN(since) ((since) > 7000 ? (since) : 7000)

static const struct row {
	const char *base;
	int since;
	bool per_thread;
	const void *address;
} rows[] = {
#define X(symbol, base, since, ...) {#base, since, false, address_##symbol},
	FAKE_PLAIN(X) FAKE_PTDS(X) FAKE_PTSZ(X)
#undef X
#define X(symbol, base, since, ...) {#base, TWIN(since), true, address_##symbol##_ptds},
		FAKE_PTDS(X)
#undef X
#define X(symbol, base, since, ...) {#base, TWIN(since), true, address_##symbol##_ptsz},
			FAKE_PTSZ(X)
#undef X
};

/* The newest function of that name that @version has; per-thread ones go first if wanted. */
static const struct row *find(const char *name, int version, bool per_thread, bool *ret_known)
{
	const struct row *best = NULL;
	*ret_known = false;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct row *row = &rows[i];
		if (strcmp(row->base, name) != 0 || (row->per_thread && !per_thread))
			continue;
		*ret_known = true;
		if (row->since > version || row->since > fake_number(FAKE_DRIVER_VERSION))
			continue;
		if (!best || (row->per_thread && !best->per_thread) ||
			(row->per_thread == best->per_thread && row->since > best->since))
			best = row;
	}
	return best;
}

static CUresult resolve(const char *symbol, void **function, int version, cuuint64_t flags,
	CUdriverProcAddressQueryResult *ret_status)
{
	bool known;
	INVALID_IF(!symbol || !function || flags > 2);
	*function = NULL;
	INVALID_IF(version > fake_number(FAKE_DRIVER_VERSION));
	const struct row *row = find(symbol, version,
		flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &known);
	if (row) {
		*function = (void *)(uintptr_t)row->address;
		fake_count(FAKE_RESOLVED, 1);
	}
	*ret_status = row     ? CU_GET_PROC_ADDRESS_SUCCESS
		      : known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
			      : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	return CUDA_SUCCESS;
}

/* The first one has no status to tell with, so it fails. */
CUresult do_cuGetProcAddress(const char *symbol, void **function, int version, cuuint64_t flags)
{
	CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
	TRY(resolve(symbol, function, version, flags, &status));
	return status == CU_GET_PROC_ADDRESS_SUCCESS ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

#ifndef FAKE_OLD_RESOLVER
CUresult do_cuGetProcAddress_v2(const char *symbol, void **function, int version,
	cuuint64_t flags, CUdriverProcAddressQueryResult *status)
{
	CUdriverProcAddressQueryResult ignored;
	return resolve(symbol, function, version, flags, status ? status : &ignored);
}
#endif

#ifdef FAKE_FUTURE
CUresult do_cuGetProcAddress_v2_ptsz(const char *symbol, void **function, int version,
	cuuint64_t flags, CUdriverProcAddressQueryResult *status)
{
	if (flags == CU_GET_PROC_ADDRESS_DEFAULT)
		flags = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
	return do_cuGetProcAddress_v2(symbol, function, version, flags, status);
}
#endif

/* None of NVIDIA's private tables. */
CUresult do_cuGetExportTable(const void **table, const CUuuid *id)
{
	INVALID_IF(!table || !id);
	return CUDA_ERROR_NOT_FOUND;
}
