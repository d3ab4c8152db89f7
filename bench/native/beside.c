/* SPDX-License-Identifier: MIT */
/*
 * beside BYTES: what copies cost kernels that run beside them, without any library of ours.  A
 * kernel that reads and writes much memory runs over and over in one stream, alone; with copies
 * of BYTES from pinned memory in another one; and with each of these followed by one within the
 * GPU, as where a batch is put into a slot.  Prints the median milliseconds of a kernel in each
 * case as JSON; null where the driver runs no kernels (one made of software).
 */
#include "cuda.h"

#define ROUNDS       31
#define KERNEL_BYTES ((size_t)512 << 20)
#define NOT_READY    600

/* Adds one to each word of @0, of which there are @1. */
static const char kernel_text[] =
	".version 6.3\n"
	".target sm_75\n"
	".address_size 64\n"
	".visible .entry touch(.param .u64 words, .param .u64 count)\n"
	"{\n"
	"  .reg .pred %p;\n"
	"  .reg .b32 %r<6>;\n"
	"  .reg .b64 %d<7>;\n"
	"  ld.param.u64 %d1, [words];\n"
	"  ld.param.u64 %d2, [count];\n"
	"  cvta.to.global.u64 %d1, %d1;\n"
	"  mov.u32 %r1, %ctaid.x;\n"
	"  mov.u32 %r2, %ntid.x;\n"
	"  mov.u32 %r3, %tid.x;\n"
	"  mov.u32 %r4, %nctaid.x;\n"
	"  mad.wide.u32 %d3, %r1, %r2, 0;\n"
	"  cvt.u64.u32 %d4, %r3;\n"
	"  add.u64 %d3, %d3, %d4;\n"
	"  mul.wide.u32 %d5, %r4, %r2;\n"
	"next:\n"
	"  setp.ge.u64 %p, %d3, %d2;\n"
	"  @%p bra done;\n"
	"  shl.b64 %d6, %d3, 2;\n"
	"  add.u64 %d6, %d1, %d6;\n"
	"  ld.global.u32 %r5, [%d6];\n"
	"  add.u32 %r5, %r5, 1;\n"
	"  st.global.u32 [%d6], %r5;\n"
	"  add.u64 %d3, %d3, %d5;\n"
	"  bra next;\n"
	"done:\n"
	"  ret;\n"
	"}\n";

#define FUNCTIONS(X)                                                            \
	X(cuInit, (unsigned))                                                   \
	X(cuDevicePrimaryCtxRetain, (void **, int))                             \
	X(cuCtxSetCurrent, (void *))                                            \
	X(cuStreamCreate, (void **, unsigned))                                  \
	X(cuStreamSynchronize, (void *))                                        \
	X(cuEventCreate, (void **, unsigned))                                   \
	X(cuEventRecord, (void *, void *))                                      \
	X(cuEventQuery, (void *))                                               \
	X(cuMemAlloc_v2, (device_pointer *, size_t))                            \
	X(cuMemHostAlloc, (void **, size_t, unsigned))                          \
	X(cuMemcpyHtoDAsync_v2, (device_pointer, const void *, size_t, void *)) \
	X(cuMemcpyDtoDAsync_v2, (device_pointer, device_pointer, size_t, void *))

/* A driver that has none of these runs no kernels. */
#define OF_KERNELS(X)                                                                          \
	X(cuModuleLoadData, (void **, const void *))                                           \
	X(cuModuleGetFunction, (void **, void *, const char *))                                \
	X(cuLaunchKernel, (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, \
				  unsigned, void *, void **, void **))

static struct {
	FUNCTIONS(CUDA_MEMBER)
	OF_KERNELS(CUDA_MEMBER)
} cuda;

static size_t bytes;
static void *function, *kernels, *copies, *done;
static device_pointer words, target, slot;
static void *pinned;

#define NEED(call) need(cuda.call, #call)

/* Whether kernels can be run here. */
static int start(void)
{
	void *context, *module;
	FUNCTIONS(CUDA_FIND)
	OF_KERNELS(CUDA_FIND_IF_THERE)
	if (!cuda.cuModuleLoadData || !cuda.cuModuleGetFunction || !cuda.cuLaunchKernel)
		return 0;
	NEED(cuInit(0));
	NEED(cuDevicePrimaryCtxRetain(&context, 0));
	NEED(cuCtxSetCurrent(context));
	NEED(cuModuleLoadData(&module, kernel_text));
	NEED(cuModuleGetFunction(&function, module, "touch"));
	NEED(cuStreamCreate(&kernels, CUDA_NON_BLOCKING));
	NEED(cuStreamCreate(&copies, CUDA_NON_BLOCKING));
	NEED(cuEventCreate(&done, 0));
	NEED(cuMemAlloc_v2(&words, KERNEL_BYTES));
	NEED(cuMemAlloc_v2(&target, bytes));
	NEED(cuMemAlloc_v2(&slot, bytes));
	NEED(cuMemHostAlloc(&pinned, bytes, 0));
	memset(pinned, 1, bytes);
	return 1;
}

static void launch(void)
{
	uint64_t count = KERNEL_BYTES / 4;
	void *arguments[] = {&words, &count};
	NEED(cuLaunchKernel(function, 1024, 1, 1, 256, 1, 1, 0, kernels, arguments, NULL));
	NEED(cuEventRecord(done, kernels));
}

enum beside { ALONE, COPIES, COPIES_AND_SLOTS };

/* One copy after the other until the kernel is done. */
static void keep_copying(enum beside what)
{
	int result;
	while ((result = cuda.cuEventQuery(done)) == NOT_READY) {
		if (what == ALONE)
			continue;
		NEED(cuMemcpyHtoDAsync_v2(target, pinned, bytes, copies));
		if (what == COPIES_AND_SLOTS)
			NEED(cuMemcpyDtoDAsync_v2(slot, target, bytes, copies));
		NEED(cuStreamSynchronize(copies));
	}
	need(result, "cuEventQuery");
}

/* Of enough kernels in a row that the last copy, which they do not wait for, is a small part.
 */
static double kernel_ms(enum beside what)
{
	enum { IN_A_ROW = 32 };
	double each[ROUNDS];
	for (int i = 0; i < ROUNDS; i++) {
		NEED(cuStreamSynchronize(copies));
		uint64_t begin = now(CLOCK_MONOTONIC);
		for (int k = 0; k < IN_A_ROW; k++)
			launch();
		keep_copying(what);
		each[i] = ms_since(begin) / IN_A_ROW;
	}
	return median(each, ROUNDS);
}

int main(int argc, char **argv)
{
	if (argc != 2 || (bytes = strtoull(argv[1], NULL, 10)) == 0)
		return 2;
	if (!start()) {
		printf("{\"kernel_ms\": null}\n");
		return 0;
	}
	(void)kernel_ms(ALONE);
	printf("{\"kernel_ms\": %.4f, ", kernel_ms(ALONE));
	printf("\"beside_copies_ms\": %.4f, ", kernel_ms(COPIES));
	printf("\"beside_copies_and_slots_ms\": %.4f}\n", kernel_ms(COPIES_AND_SLOTS));
	return 0;
}
