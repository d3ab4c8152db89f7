/* SPDX-License-Identifier: MIT */
/* A driver and a service for the unit tests; see fake_driver.h. */
#include "fake_driver.h"

struct fake_driver fake_driver;
struct ts_cuda ts_cuda;
struct ts_gpu ts_gpus[TS_GPUS];

static ts_cu_result context_get(ts_cu_context *ret_context)
{
	*ret_context = &fake_driver;
	return TS_CU_SUCCESS;
}

static ts_cu_result device_get(ts_cu_device *ret_device)
{
	*ret_device = 0;
	return TS_CU_SUCCESS;
}

static ts_cu_result attribute_get(int *ret_value, int attribute, ts_cu_device device)
{
	*ret_value = attribute == TS_CU_USE_REGISTERED && device == 0;
	return TS_CU_SUCCESS;
}

static ts_cu_result event_create(ts_cu_event *ret_event, unsigned flags)
{
	*ret_event = &fake_driver;
	return flags == TS_CU_EVENT_DISABLE_TIMING ? TS_CU_SUCCESS : 1;
}

static ts_cu_result event_destroy(ts_cu_event event)
{
	return event == &fake_driver ? TS_CU_SUCCESS : 1;
}

static ts_cu_result event_record(ts_cu_event event, ts_cu_stream stream)
{
	fake_driver.recorded++;
	return fake_driver.record;
}

static ts_cu_result event_query(ts_cu_event event)
{
	return fake_driver.complete ? fake_driver.query : TS_CU_NOT_READY;
}

static ts_cu_result host_register(void *address, size_t bytes, unsigned flags)
{
	if (fake_driver.registers != TS_CU_SUCCESS || flags != TS_CU_REGISTER_PORTABLE)
		return fake_driver.registers;
	fake_driver.registered++;
	fake_driver.registered_bytes += bytes;
	return TS_CU_SUCCESS;
}

static ts_cu_result host_unregister(void *address)
{
	fake_driver.registered--;
	return TS_CU_SUCCESS;
}

static ts_cu_result copy_sync TS_CU_TAKES_copy
{
	fake_driver.copies++;
	return fake_driver.copy;
}

static ts_cu_result copy_async TS_CU_TAKES_copy_async
{
	return copy_sync(to, from, bytes);
}

struct ts_copy fake_copy(ts_cu_pointer to, ts_cu_pointer from, size_t bytes, bool async)
{
	struct ts_copy copy = {.to = to, .from = from, .bytes = bytes, .async = async};
	if (async)
		copy.real.copy_async = copy_async;
	else
		copy.real.copy = copy_sync;
	return copy;
}

void fake_driver_init(void)
{
	fake_driver = (struct fake_driver){.complete = true};
	ts_write_relaxed(&ts_cuda.cuCtxGetCurrent, context_get);
	ts_write_relaxed(&ts_cuda.cuCtxGetDevice, device_get);
	ts_write_relaxed(&ts_cuda.cuDeviceGetAttribute, attribute_get);
	ts_write_relaxed(&ts_cuda.cuEventCreate, event_create);
	ts_write_relaxed(&ts_cuda.cuEventDestroy_v2, event_destroy);
	ts_write_relaxed(&ts_cuda.cuEventRecord, event_record);
	ts_write_relaxed(&ts_cuda.cuEventRecord_ptsz, event_record);
	ts_write_relaxed(&ts_cuda.cuEventQuery, event_query);
	ts_write_relaxed(&ts_cuda.cuMemHostRegister_v2, host_register);
	ts_write_relaxed(&ts_cuda.cuMemHostUnregister, host_unregister);
	ts_gpus[0].context = &fake_driver;
	ts_write_relaxed(&ts_gpus[0].state, TS_GPU_READY);
}

/* ---- what is elsewhere in hooks/cuda ---------------------------------------------------- */

void ts_service_wake(void)
{
	fake_driver.woken++;
}

bool ts_service_is_ours(void)
{
	return true;
}
