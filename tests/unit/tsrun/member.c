/* SPDX-License-Identifier: MIT */
/*
 * A process that joins the group argv[1], counts some work under the dataset argv[2], says
 * "ready" and stays until its standard input ends; for each line of it, it counts as much again
 * under both and says "counted".  With "die" behind, it is killed at that
 * point instead of leaving; with "gpu", it has shared copies to a GPU as well; with "auto", its
 * ring has no size that was asked for.
 */
#include "leader/group/attach.h"
#include "leader/slots/device.h"
#include "leader/group/ledger.h"
#include "shim/atomic.h"
#include "shim/identity.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void count(struct ts_tally *tally)
{
	(void)ts_add_relaxed(&tally->produced, 3);
	(void)ts_add_relaxed(&tally->shared, 9);
	(void)ts_add_relaxed(&tally->shared_bytes, 4096);
	(void)ts_add_relaxed(&tally->saved_ns, 1500000000);
}

static int join_gpu(struct ts_store *store, struct ts_ledger *ledger, uint32_t dataset)
{
	const uint8_t uuid[TS_DEVICE_UUID] = {1};
	struct ts_device *device;
	int r = ts_device_attach(store, &device);

	if (r == 0)
		r = ts_device_find(device, uuid);
	if (r < 0) {
		fprintf(stderr, "cannot join the GPU: %s\n", strerror(-r));
		return r;
	}
	count(&ts_ledger_dataset(ledger, dataset)->kinds[TS_KIND_DEVICE]);
	return 0;
}

int main(int argc, char **argv)
{
	struct ts_attach_options options = {.ring_bytes = 64u << 20};
	struct ts_store *store;
	enum ts_reason reason;

	if (argc < 3)
		return 2;
	(void)snprintf(options.group, sizeof(options.group), "%s", argv[1]);
	options.job = ts_process_id(getpid(), false);
	if (argc > 3 && strcmp(argv[3], "auto") == 0)
		options.ring_bytes = TS_RING_AUTO;
	int r = ts_store_attach(&options, &store, &reason);
	if (r < 0) {
		fprintf(stderr, "cannot attach: %s (reason %d)\n", strerror(-r), (int)reason);
		return 1;
	}
	struct ts_ledger *ledger = ts_store_ledger(store);
	int dataset = ts_ledger_find_dataset(ledger, argv[2]);
	int job = ts_ledger_find_job(ledger, options.job);
	if (dataset < 0 || job < 0)
		return 1;
	ts_ledger_note(ledger, (uint32_t)job, (uint32_t)dataset);
	ts_ledger_set_batch(ledger, (uint32_t)job, ts_config()->batch);
	count(&ts_ledger_dataset(ledger, (uint32_t)dataset)->kinds[TS_KIND_PIXELS]);
	count(&ts_ledger_job(ledger, (uint32_t)job)->kinds[TS_KIND_PIXELS]);
	(void)ts_add_relaxed(&ledger->passed[TS_REASON_JPEG_SMALL], 5);
	(void)ts_add_relaxed(
		&ts_ledger_job(ledger, (uint32_t)job)->passed[TS_REASON_JPEG_SMALL], 5);
	if (argc > 3 && strcmp(argv[3], "gpu") == 0 &&
		join_gpu(store, ledger, (uint32_t)dataset) < 0)
		return 1;
	puts("ready");
	fflush(stdout);
	for (int c; (c = getchar()) != EOF;) {
		if (c != '\n')
			continue;
		count(&ts_ledger_dataset(ledger, (uint32_t)dataset)->kinds[TS_KIND_PIXELS]);
		count(&ts_ledger_job(ledger, (uint32_t)job)->kinds[TS_KIND_PIXELS]);
		puts("counted");
		fflush(stdout);
	}
	if (argc > 3 && strcmp(argv[3], "die") == 0)
		raise(SIGKILL);
	ts_store_detach(store);
	return 0;
}
