/* SPDX-License-Identifier: MIT */
/*
 * The calls that stand in front of the driver's, and which of them a program gets.  Each name
 * of the tables in hooks/cuda/cuda_driver.h has
 *
 *	ts_cuda_NAME   which a program gets in the place of the driver's address.  It calls the
 *	               driver itself: a library that brings trampolines of these names along
 *	               would come back here
 *	NAME           for programs that are linked with the driver, of the exported names only.
 *	               It goes on to the next definition in load order, by way of ts_cuda_NAME
 *if that is the driver's.  It may be another preload's, or a trampoline that a library brings
 *along for a driver that it loads itself
 *
 * All are made from the tables: the calls of a kind differ in their name and stream only.
 */
#include "hooks/cuda/copy.h"
#include "hooks/cuda/gpu.h"
#include "hooks/cuda/reach.h"
#include "leader/group/session.h"

#include <string.h>

#define DRIVER(symbol) TS_CUDA_DRIVER(symbol)

/* ---- copies ----------------------------------------------------------------------------- */

/* Too small to be shared, and not of the hand-over pool's memory: counted, and the driver's. */
static inline bool pass_small(ts_cu_pointer to, ts_cu_pointer from, size_t bytes)
{
	if (TS_UNLIKELY(bytes >= TS_COPY_BYTES_MIN) ||
		TS_UNLIKELY(ts_place_near(from, bytes)) ||
		TS_UNLIKELY(ts_place_near(to, bytes)))
		return false;
	ts_session_count_pass(TS_REASON_COPY_SMALL);
	return true;
}

/* Copies back are looked at only where they write to the pool's memory. */
static inline bool pass_back(ts_cu_pointer to, ts_cu_pointer from, size_t bytes)
{
	return TS_LIKELY(!ts_place_near(to, bytes));
}

/* If @pass says so, the driver makes the copy at once. */
#define CALL_COPY(symbol, kind, which, pass, ...)                  \
	static ts_cu_result ts_cuda_##symbol TS_CU_TAKES_##kind    \
	{                                                          \
		if (pass(to, from, bytes))                         \
			return DRIVER(symbol) TS_CU_PASSES_##kind; \
		struct ts_copy copy = {.to = to,                   \
			.from = from,                              \
			.bytes = bytes,                            \
			.per_thread = TS_COPY_##which,             \
			.real.kind = DRIVER(symbol),               \
			__VA_ARGS__};                              \
		return ts_copy(&copy);                             \
	}

#define CALL_BATCH(symbol, kind, which, ...)                    \
	static ts_cu_result ts_cuda_##symbol TS_CU_TAKES_##kind \
	{                                                       \
		const struct ts_batch batch = {.to = to,        \
			.from = from,                           \
			.bytes = bytes,                         \
			.count = count,                         \
			.attributes = attributes,               \
			.attribute_at = attribute_at,           \
			.attribute_count = attribute_count,     \
			.stream = stream,                       \
			.per_thread = TS_COPY_##which,          \
			__VA_ARGS__};                           \
		return ts_batch(&batch);                        \
	}

#define WITH_STREAM .async = true, .stream = stream

#define CALL_copy(symbol, which) CALL_COPY(symbol, copy, which, pass_small, .async = false)
#define CALL_copy_async(symbol, which) \
	CALL_COPY(symbol, copy_async, which, pass_small, WITH_STREAM)
#define CALL_batch(symbol, which) \
	CALL_BATCH(symbol, batch, which, .real = DRIVER(symbol), .ret_failed = ret_failed)
#define CALL_batch_v2(symbol, which) \
	CALL_BATCH(symbol, batch_v2, which, .real_v2 = DRIVER(symbol))

#define TS_X(symbol, kind, which) CALL_##kind(symbol, which)
TS_CUDA_COPIES(TS_X)
#undef TS_X

#define BACK_copy(symbol, which) CALL_COPY(symbol, copy, which, pass_back, .back = true)
#define BACK_copy_async(symbol, which) \
	CALL_COPY(symbol, copy_async, which, pass_back, .back = true, WITH_STREAM)

#define TS_X(symbol, kind, which) BACK_##kind(symbol, which)
TS_CUDA_BACK(TS_X)
#undef TS_X

/* ---- allocations ------------------------------------------------------------------------ */

/*
 * A program gets the memory that it would get without us: where there is no room, rings of ours
 * go, and the call is made once more.  One that failed has had no effect.
 */
static bool is_worth_another(ts_cu_result result)
{
	return TS_UNLIKELY(result == TS_CU_OUT_OF_MEMORY) && ts_gpu_make_room();
}

#define TS_X(symbol, kind, which)                                                              \
	static ts_cu_result ts_cuda_##symbol TS_CU_TAKES_##kind                                \
	{                                                                                      \
		ts_cu_result result = DRIVER(symbol) TS_CU_PASSES_##kind;                      \
		return is_worth_another(result) ? DRIVER(symbol) TS_CU_PASSES_##kind : result; \
	}
TS_CUDA_ALLOCATES(TS_X)
#undef TS_X

/* ---- ends ------------------------------------------------------------------------------- */

#define RESETS_end   false
#define RESETS_reset true

#define TS_X(symbol, kind, which)                               \
	static ts_cu_result ts_cuda_##symbol TS_CU_TAKES_##kind \
	{                                                       \
		ts_gpu_leave(device, RESETS_##kind);            \
		return DRIVER(symbol) TS_CU_PASSES_##kind;      \
	}
TS_CUDA_ENDS(TS_X)
#undef TS_X

/* ---- resolvers -------------------------------------------------------------------------- */

static void *call_before(void *found);

/*
 * The driver answers first, to what it was asked.  Its answer is replaced only where it is the
 * address of a call whose parameters we know: a later variant of a name has another one.
 */
#define TS_X(symbol, kind, which)                                             \
	static ts_cu_result ts_cuda_##symbol TS_CU_TAKES_##kind               \
	{                                                                     \
		ts_cu_result result = DRIVER(symbol) TS_CU_PASSES_##kind;     \
		if (result == TS_CU_SUCCESS && ret_function && *ret_function) \
			*ret_function = call_before(*ret_function);           \
		return result;                                                \
	}
TS_CUDA_RESOLVERS(TS_X)
#undef TS_X

/* ---- which of them a program gets ------------------------------------------------------- */

/* Numbers of the exported names, which come first. */
enum {
#define TS_X(symbol, kind, which) NUMBER_##symbol,
	TS_CUDA_EXPORTED(TS_X)
#undef TS_X
		EXPORTED_COUNT
};

static const char *const names[] = {
#define TS_X(symbol, kind, which) #symbol,
	TS_CUDA_HOOKED(TS_X)
#undef TS_X
};

/* The place of @name among the first @count; @count: it is none of them. */
static size_t number_of(const char *name, size_t count)
{
	size_t i = 0;
	/* "cu" is also how names of cuDNN, cuBLAS and curl begin. */
	if (name[0] != 'c' || name[1] != 'u' || !strchr("DGM", name[2]))
		return count;
	while (i < count && strcmp(names[i], name) != 0)
		i++;
	return i;
}

bool ts_cuda_is_exported(const char *name)
{
	return number_of(name, EXPORTED_COUNT) < EXPORTED_COUNT;
}

/* Ours for the driver's function at @found, if its parameters are known.  No lock. */
static void *call_before(void *found)
{
#define TS_X(symbol, kind, which)            \
	if (found == (void *)DRIVER(symbol)) \
		return (void *)ts_cuda_##symbol;
	TS_CUDA_HOOKED(TS_X)
#undef TS_X
	return found;
}

void *ts_cuda_substitute(void *found, const char *name, const void *caller)
{
	struct ts_elf_object object, from;
	if (TS_LIKELY(number_of(name, TS_ARRAY_SIZE(names)) == TS_ARRAY_SIZE(names)))
		return found;
	if (!ts_elf_containing((uintptr_t)found, &object) || !ts_cuda_is_driver(&object))
		return found;
	if (ts_elf_containing((uintptr_t)caller, &from) && ts_cuda_is_driver(&from))
		return found;
	return ts_cuda_bind(&object) ? call_before(found) : found;
}

/* ---- exported --------------------------------------------------------------------------- */

static _Atomic uintptr_t next[EXPORTED_COUNT]; /* 0: to be searched for */
static _Atomic unsigned long long unloads_seen;
static _Atomic int active;

void ts_cuda_calls_begin(void)
{
	ts_write_relaxed(&active, 1);
}

struct search {
	const char *name;
	uintptr_t found;
};

static void find(void *data)
{
	struct search *search = data;
	search->found = ts_elf_next(search->name);
	if (search->found && ts_load_relaxed(&active))
		search->found = (uintptr_t)ts_cuda_substitute(
			(void *)search->found, search->name, NULL);
}

static void forget_what_is_gone(void)
{
	unsigned long long unloads = ts_elf_unloads();
	/* Acquire: pairs with the release below, all forgotten before it is said. */
	if (TS_LIKELY(unloads == ts_load_acquire(&unloads_seen)))
		return;
	for (size_t i = 0; i < EXPORTED_COUNT; i++)
		ts_write_relaxed(&next[i], 0);
	ts_write_release(&unloads_seen, unloads);
}

/*
 * Where the exported call of that number goes on; NULL: no loaded object defines it.  Searches
 * at the first call, and again after any object was unloaded.  Takes the loader's lock.
 */
static void *next_of(unsigned number)
{
	forget_what_is_gone();
	uintptr_t known = ts_load_relaxed(&next[number]);
	if (TS_LIKELY(known != 0))
		return (void *)known;
	struct search search = {.name = names[number]};
	ts_elf_locked(find, &search);
	ts_write_relaxed(&next[number], search.found);
	return (void *)search.found;
}

/* Nobody can have called cuInit where no library defines these. */
#define TS_X(symbol, kind, which)                                                          \
	TS_EXPORT ts_cu_result symbol TS_CU_TAKES_##kind;                                  \
	ts_cu_result symbol TS_CU_TAKES_##kind                                             \
	{                                                                                  \
		__typeof__(symbol) *call = (__typeof__(symbol) *)next_of(NUMBER_##symbol); \
		return call ? call TS_CU_PASSES_##kind : TS_CU_NOT_INITIALIZED;            \
	}
TS_CUDA_EXPORTED(TS_X)
#undef TS_X
