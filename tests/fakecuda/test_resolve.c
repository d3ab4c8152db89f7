/* SPDX-License-Identifier: MIT */
/* cuGetProcAddress, for every function of the table, and what a runtime gets. */
#include "minicudart.h"
#include "test.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define TWIN(since) ((since) > 7000 ? (since) : 7000)

static const struct row {
	const char *symbol, *base;
	int since;
	void *plain, *twin; /* the same where there is no twin */
} rows[] = {
#define X(symbol, base, since, ...) {#symbol, #base, since, symbol, symbol},
	FAKE_PLAIN(X)
#undef X
#define X(symbol, base, since, ...) {#symbol, #base, since, symbol, symbol##_ptds},
		FAKE_PTDS(X)
#undef X
#define X(symbol, base, since, ...) {#symbol, #base, since, symbol, symbol##_ptsz},
			FAKE_PTSZ(X)
#undef X
};

#define ROWS (sizeof(rows) / sizeof(rows[0]))

static void *resolve(const char *base, int version, cuuint64_t flags,
	CUdriverProcAddressQueryResult expected)
{
	void *function = &function;
	CUdriverProcAddressQueryResult status = 77;
	OK(cuGetProcAddress_v2(base, &function, version, flags, &status));
	if (status != expected)
		test_fail(__FILE__, __LINE__, base, status);
	CHECK((function != NULL) == (expected == CU_GET_PROC_ADDRESS_SUCCESS));
	return function;
}

/* Nothing else of that base name came before. */
static bool is_first(const struct row *row)
{
	for (size_t i = 0; i < ROWS; i++)
		if (strcmp(rows[i].base, row->base) == 0 && rows[i].since < row->since)
			return false;
	return true;
}

static void every_function(void)
{
	for (size_t i = 0; i < ROWS; i++) {
		const struct row *row = &rows[i];
		CHECK(resolve(row->base, row->since, 0, 0) == row->plain);
		CHECK(resolve(row->base, row->since, 1, 0) == row->plain);
		CHECK(resolve(row->base, TWIN(row->since), 2, 0) == row->twin ||
			TWIN(row->since) != row->since);
		if (is_first(row))
			resolve(row->base, row->since - 1, 0,
				CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
	}
}

static void versions(void)
{
	void *f = NULL;
	CUdriverProcAddressQueryResult status;
	CHECK(resolve("cuMemcpyHtoDAsync", 6050, 2, 0) == cuMemcpyHtoDAsync_v2);
	CHECK(resolve("cuMemcpyHtoDAsync", 7000, 2, 0) == cuMemcpyHtoDAsync_v2_ptsz);
	CHECK(resolve("cuMemcpyBatchAsync", 12090, 0, 0) == cuMemcpyBatchAsync);
	CHECK(resolve("cuMemcpyBatchAsync", 13000, 2, 0) == cuMemcpyBatchAsync_v2_ptsz);
	CHECK(resolve("cuGetProcAddress", 11080, 0, 0) == cuGetProcAddress);
	CHECK(resolve("cuGetProcAddress", 12000, 0, 0) == cuGetProcAddress_v2);
	/* Only base names. */
	resolve("cuMemcpyHtoDAsync_v2", 13000, 0, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
	resolve("", 0, 0, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
	IS(CUDA_ERROR_INVALID_VALUE, cuGetProcAddress_v2("cuInit", &f, 13010, 0, &status));
	IS(CUDA_ERROR_INVALID_VALUE, cuGetProcAddress_v2("cuInit", &f, 13000, 3, &status));
	OK(cuGetProcAddress_v2("cuInit", &f, 13000, 0, NULL));
	/* The first interface has only its result to tell. */
	OK(cuGetProcAddress("cuInit", &f, 13000, 0));
	CHECK(f == cuInit);
	IS(CUDA_ERROR_NOT_FOUND, cuGetProcAddress("cuNone", &f, 13000, 0));
	IS(CUDA_ERROR_NOT_FOUND, cuGetProcAddress("cuMemcpyHtoD", &f, 3000, 0));
	CUuuid id = {{0}};
	const void *table;
	IS(CUDA_ERROR_NOT_FOUND, cuGetExportTable(&table, &id));
}

static void older_version(void)
{
	int version;
	void *f;
	OK(cuDriverGetVersion(&version));
	CHECK(version == 12080);
	CHECK(resolve("cuMemcpyBatchAsync", 12080, 0, 0) == cuMemcpyBatchAsync);
	IS(CUDA_ERROR_INVALID_VALUE, cuGetProcAddress("cuMemcpyBatchAsync", &f, 13000, 0));
}

static void runtime(void)
{
	int asked, found;
	const struct mini_driver *legacy = mini_driver(0), *thread = mini_driver(1);
	mini_requests(&asked, &found);
	/* Every function, once more for those of threads, and nothing that is not there. */
	CHECK(found == 2 * (int)ROWS && asked > found);
	CHECK(legacy->cuMemcpyHtoDAsync_v2 == cuMemcpyHtoDAsync_v2);
	CHECK(thread->cuMemcpyHtoDAsync_v2 == cuMemcpyHtoDAsync_v2_ptsz);
	CHECK(thread->cuMemcpyHtoD_v2 == cuMemcpyHtoD_v2_ptds);
	CHECK(thread->cuCtxCreate_v2 == cuCtxCreate_v2);
	test_begin(0);
	CUdeviceptr device = test_device(100, 1);
	char host[100], back[100];
	memset(host, 2, sizeof(host));
	OK(mini_memcpy((void *)(uintptr_t)device, host, 100, MINI_HOST_TO_DEVICE, 0));
	OK(mini_memcpy_async(back, (void *)(uintptr_t)device, 100, MINI_DEFAULT, NULL, 1));
	CHECK(back[99] == 2);
	CHECK(test_counter("call.cuMemcpyHtoD_v2") == 1);
	CHECK(test_counter("call.cuMemcpyAsync_ptsz") == 1);
}

static void *entry(const char *base, int version, cuuint64_t flags, int per_thread)
{
	void *function = &function;
	OK(mini_entry_point(base, &function, version, flags, NULL, per_thread));
	return function;
}

static void entry_points(void)
{
	CUdriverProcAddressQueryResult status = 77;
	void *f = &f;
	CHECK(entry("cuMemcpyHtoD", MINI_VERSION, 0, 0) == cuMemcpyHtoD_v2);
	CHECK(entry("cuMemcpyHtoD", MINI_VERSION, 0, 1) == cuMemcpyHtoD_v2_ptds);
	CHECK(entry("cuMemcpyHtoD", MINI_VERSION, 1, 1) == cuMemcpyHtoD_v2);
	CHECK(entry("cuMemcpyHtoD", MINI_VERSION, 2, 0) == cuMemcpyHtoD_v2_ptds);
	CHECK(entry("cuMemcpyBatchAsync", MINI_VERSION, 0, 0) == cuMemcpyBatchAsync_v2);
	CHECK(entry("cuMemcpyBatchAsync", 12080, 0, 0) == cuMemcpyBatchAsync);
	/* None is no error. */
	OK(mini_entry_point("cuNone", &f, MINI_VERSION, 0, &status, 0));
	CHECK(!f && status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
	OK(mini_entry_point("cuMemcpyHtoD", &f, 3000, 0, &status, 0));
	CHECK(!f && status == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
	IS(CUDA_SUCCESS, mini_get_last_error());
	IS(CUDA_ERROR_INVALID_VALUE, mini_entry_point(NULL, &f, MINI_VERSION, 0, NULL, 0));
	IS(CUDA_ERROR_INVALID_VALUE, mini_get_last_error());
}

static void *other_thread(void *unused)
{
	IS(CUDA_SUCCESS, mini_get_last_error());
	IS(CUDA_ERROR_INVALID_CONTEXT, mini_memcpy(NULL, "", 1, MINI_HOST_TO_DEVICE, 1));
	IS(CUDA_ERROR_INVALID_CONTEXT, mini_peek_at_last_error());
	return unused;
}

static void last_error(void)
{
	pthread_t thread;
	char host[100] = {0};
	test_begin(0);
	CUdeviceptr device = test_device(100, 1);
	void *to = (void *)(uintptr_t)device;
	IS(CUDA_SUCCESS, mini_get_last_error());
	IS(CUDA_ERROR_NO_DEVICE, mini_memcpy(to, host, 100, MINI_HOST_TO_DEVICE, 0));
	/* It stays over calls that succeed, and over those of the driver. */
	OK(mini_memcpy_async(to, host, 100, MINI_HOST_TO_DEVICE, NULL, 0));
	IS(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD_v2(0, host, 100));
	IS(CUDA_ERROR_NO_DEVICE, mini_peek_at_last_error());
	CHECK(pthread_create(&thread, NULL, other_thread, NULL) == 0);
	CHECK(pthread_join(thread, NULL) == 0);
	IS(CUDA_ERROR_NO_DEVICE, mini_get_last_error());
	IS(CUDA_SUCCESS, mini_get_last_error());
}

int main(void)
{
	static const struct test tests[] = {
		{"every function by name and version", "", every_function},
		{"what versions and flags choose", "", versions},
		{"a driver before 13.0", "DRIVER_VERSION=12080", older_version},
		{"what a runtime gets", "", runtime},
		{"entry points of a runtime", "", entry_points},
		{"the last error of a thread", "FAIL=cuMemcpyHtoD_v2:1:100", last_error},
		{NULL, NULL, NULL},
	};
	return test_main(tests);
}
