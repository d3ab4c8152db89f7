/* SPDX-License-Identifier: MIT */
/*
 * The way into the stand-in: all that is exported, made from the table, cuGetProcAddress, and
 * beginning, ending and forks of a process that uses it; see driver.h.
 */
#include "driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- beginning, ending and forks --------------------------------------------------------- */

pthread_mutex_t fake_lock = PTHREAD_MUTEX_INITIALIZER;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Atomic bool initialised, ending, forked;

static void after_fork_in_child(void)
{
	atomic_store(&forked, atomic_load(&initialised));
}

static void read_settings(void)
{
	fake_settings_init();
	fake_counters_init();
	pthread_atfork(NULL, NULL, after_fork_in_child);
}

/* What works before cuInit. */
static bool needs_init(enum fake_call call)
{
	switch (call) {
	case FAKE_CALL_cuInit:
	case FAKE_CALL_cuDriverGetVersion:
	case FAKE_CALL_cuGetErrorName:
	case FAKE_CALL_cuGetErrorString:
	case FAKE_CALL_cuGetExportTable:
	case FAKE_CALL_cuGetProcAddress:
#ifndef FAKE_OLD_RESOLVER
	case FAKE_CALL_cuGetProcAddress_v2:
#endif
#ifdef FAKE_FUTURE
	case FAKE_CALL_cuGetProcAddress_v2_ptsz:
#endif
		return false;
	default:
		return true;
	}
}

/* Errors after which a context is of no use any more, whoever caused them. */
static bool is_lasting(CUresult error)
{
	return error == CUDA_ERROR_ILLEGAL_ADDRESS || error == CUDA_ERROR_LAUNCH_TIMEOUT ||
	       error == CUDA_ERROR_ASSERT ||
	       (error >= CUDA_ERROR_HARDWARE_STACK_ERROR && error <= CUDA_ERROR_LAUNCH_FAILED);
}

bool fake_fails_locked(const char *name, uint64_t nth, CUresult *ret_error)
{
	CUcontext context;
	CUresult error = (CUresult)fake_failure(name, nth);
	if (error == CUDA_SUCCESS)
		return false;
	fake_count(FAKE_INJECTED, 1);
	if (is_lasting(error) && fake_current_locked(&context) == CUDA_SUCCESS)
		fake_context_break_locked(context, error);
	*ret_error = error;
	return true;
}

bool fake_enter(enum fake_call call, CUresult *ret_error)
{
	pthread_once(&once, read_settings);
	uint64_t nth = fake_count_call(call);
	if (atomic_load(&ending)) {
		*ret_error = CUDA_ERROR_DEINITIALIZED;
		return false;
	}
	/* A forked child has inherited handles of a device that is not its own. */
	bool uses_device = needs_init(call) || call == FAKE_CALL_cuInit;
	if ((uses_device && atomic_load(&forked)) ||
		(needs_init(call) && !atomic_load(&initialised))) {
		*ret_error = CUDA_ERROR_NOT_INITIALIZED;
		return false;
	}
	if (needs_init(call))
		pthread_mutex_lock(&fake_lock);
	if (!fake_fails_locked(fake_call_name(call), nth, ret_error))
		return true;
	fake_leave(call);
	return false;
}

void fake_leave(enum fake_call call)
{
	if (needs_init(call))
		pthread_mutex_unlock(&fake_lock);
}

/* Run at exit, before the handlers that the program had when it called cuInit: Python's, for
 * one, still make calls after this. */
static void end(void)
{
	if (atomic_load(&forked))
		return;
	pthread_mutex_lock(&fake_lock);
	atomic_store(&ending, true);
	fake_memory_end_imports_locked();
	fake_news_locked();
	pthread_mutex_unlock(&fake_lock);
}

static void end_at_exit(void)
{
	if (atexit(end) != 0)
		fake_die("atexit failed");
	atomic_store(&initialised, true);
}

/*
 * Two habits of real drivers that have hung or killed programs under a hooked dlsym, on demand
 * by FAKECUDA_RESOLVE_THROUGH_SELF:
 *
 *   1  as drivers from 570 on: dlsym of "cuGetExportTable" in itself while it is being loaded,
 *      from its constructor, so with the loader's lock held
 *   2  as WSL's: cuInit looks up "cuInit" by dlsym and calls what it finds
 */

static bool is_set(const char *value)
{
	const char *text = getenv("FAKECUDA_RESOLVE_THROUGH_SELF");
	return text && strcmp(text, value) == 0;
}

/* A handle of this very library; what it is called does not matter. */
static void *self(void)
{
	Dl_info info;
	if (dladdr((void *)is_set, &info) == 0)
		fake_die("dladdr does not know its caller");
	void *handle = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
	if (!handle)
		fake_die("cannot find myself: %s", dlerror());
	return handle;
}

__attribute__((constructor)) static void look_for_export_table(void)
{
	if (!is_set("1"))
		return;
	void *handle = self();
	if (!dlsym(handle, "cuGetExportTable"))
		fake_die("dlsym does not find my cuGetExportTable");
	dlclose(handle);
}

static void selfload_init(void)
{
	static _Thread_local int depth;
	if (fake_number(FAKE_RESOLVE_THROUGH_SELF) != 2 || depth++ > 0)
		return;
	void *handle = self();
	CUresult (*init)(unsigned);
	*(void **)&init = dlsym(handle, "cuInit");
	if (!init || init(0) != CUDA_SUCCESS)
		fake_die("cuInit found by dlsym does not work");
	dlclose(handle);
	depth = 0;
}

CUresult do_cuInit(unsigned int flags)
{
	static pthread_once_t init_once = PTHREAD_ONCE_INIT;
	INVALID_IF(flags != 0);
	selfload_init();
	if (fake_visible_count() == 0)
		return CUDA_ERROR_NO_DEVICE;
	pthread_once(&init_once, end_at_exit);
	return CUDA_SUCCESS;
}

CUresult do_cuDriverGetVersion(int *version)
{
	INVALID_IF(!version);
	*version = (int)fake_number(FAKE_DRIVER_VERSION);
	return CUDA_SUCCESS;
}

bool fake_is_ending_locked(void)
{
	return atomic_load(&ending);
}

uint64_t fake_start_of(pid_t pid)
{
	char path[32], line[1024];
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	FILE *file = fopen(path, "re");
	if (!file)
		return 0;
	size_t bytes = fread(line, 1, sizeof(line) - 1, file);
	fclose(file);
	line[bytes] = '\0';
	/* The name, field 2, may hold blanks and brackets; field 3 says whether it is dead. */
	char *field = strrchr(line, ')');
	if (field && (field[2] == 'Z' || field[2] == 'X'))
		return 0;
	for (int i = 2; field && i < 22; i++)
		field = strchr(field + 1, ' ');
	return field ? strtoull(field + 1, NULL, 10) : 0;
}

void *fake_alloc(size_t bytes)
{
	void *memory = calloc(1, bytes);
	if (!memory)
		fake_die("no memory");
	return memory;
}

/* ---- exported; what the functions do is elsewhere as do_SYMBOL --------------------------- */

static CUstream legacy(CUstream stream)
{
	return stream ? stream : CU_STREAM_LEGACY;
}

static CUstream per_thread(CUstream stream)
{
	return stream ? stream : CU_STREAM_PER_THREAD;
}

#define DEFINE(name, symbol, arguments, ...)                \
	FAKE_EXPORT CUresult name(__VA_ARGS__);             \
	FAKE_EXPORT CUresult name(__VA_ARGS__)              \
	{                                                   \
		CUresult result;                            \
		if (!fake_enter(FAKE_CALL_##name, &result)) \
			return result;                      \
		result = do_##symbol arguments;             \
		fake_leave(FAKE_CALL_##name);               \
		return result;                              \
	}

#define X(symbol, base, since, arguments, ...) DEFINE(symbol, symbol, arguments, __VA_ARGS__)
#define S(stream)                              legacy(stream)
FAKE_PLAIN(X)
FAKE_PTDS(X)
FAKE_PTSZ(X)
#undef X
#undef S

#define S(stream) per_thread(stream)
#define X(symbol, base, since, arguments, ...) \
	DEFINE(symbol##_ptds, symbol, arguments, __VA_ARGS__)
FAKE_PTDS(X)
#undef X
#define X(symbol, base, since, arguments, ...) \
	DEFINE(symbol##_ptsz, symbol, arguments, __VA_ARGS__)
FAKE_PTSZ(X)
#undef X

/* ---- cuGetProcAddress: from base names and versions to exported functions ---------------- */

/* Per-thread default streams came with 7.0. */
#define TWIN(since) ((since) > 7000 ? (since) : 7000)

static const struct row {
	const char *base;
	int since;
	bool per_thread;
	void *address;
} rows[] = {
#define X(symbol, base, since, ...) {#base, since, false, symbol},
	FAKE_PLAIN(X) FAKE_PTDS(X) FAKE_PTSZ(X)
#undef X
#define X(symbol, base, since, ...) {#base, TWIN(since), true, symbol##_ptds},
		FAKE_PTDS(X)
#undef X
#define X(symbol, base, since, ...) {#base, TWIN(since), true, symbol##_ptsz},
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
		*function = fake_number(FAKE_LIES) == FAKE_LIE_ADDRESS ? (void *)find
								       : row->address;
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
