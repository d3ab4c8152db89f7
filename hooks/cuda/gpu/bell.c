/* SPDX-License-Identifier: MIT */
/* Starting the service thread, and waking it. */
#include "hooks/cuda/gpu/bell.h"

#include "shim/atomic.h"
#include "shim/elf.h"
#include "shim/identity.h"
#include "shim/sys.h"

#include <pthread.h>
#include <signal.h>

enum { NOT_STARTED, STARTING, STARTED, FAILED };

static _Atomic int started;
static _Atomic uint32_t started_serial; /* of the process: a fork child has no thread */
static _Atomic uint32_t wake;
static _Atomic int asleep;
static ts_service_run *_Atomic service;

void ts_service_is(ts_service_run *run)
{
	ts_write_relaxed(&service, run);
}

/* ---- starting --------------------------------------------------------------------------- */

typedef int create_call(
	pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *data);

struct search {
	create_call *create;
};

static bool look_in(const struct ts_elf_object *object, void *data)
{
	struct search *search = data;
	search->create = (create_call *)ts_elf_function(object, "pthread_create");
	return search->create != NULL;
}

/* Its symbol is too new for old C libraries where it is in libc.so.6 (tests/abi). */
static bool create_thread(ts_service_run *run, struct ts_store *store)
{
	struct search search = {NULL};
	pthread_attr_t attributes;
	pthread_t thread;
	sigset_t all, old;
	if (!ts_elf_each(look_in, &search) || pthread_attr_init(&attributes) != 0)
		return false;
	(void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	/* The program's signals are for the program's threads. */
	(void)sigfillset(&all);
	(void)sigprocmask(SIG_SETMASK, &all, &old);
	bool created = search.create(&thread, &attributes, run, store) == 0;
	(void)sigprocmask(SIG_SETMASK, &old, NULL);
	(void)pthread_attr_destroy(&attributes);
	return created;
}

bool ts_service_start(const struct ts_session *session)
{
	int state = NOT_STARTED;
	if (!ts_cas(&started, &state, STARTING))
		return state == STARTED && ts_service_is_ours();
	ts_service_run *run = ts_load_relaxed(&service);
	ts_write_relaxed(&started_serial, ts_identity_serial());
	bool created = run && create_thread(run, session->store);
	/* It may have ended already. */
	state = STARTING;
	return ts_cas(&started, &state, created ? STARTED : FAILED) && created;
}

bool ts_service_is_ours(void)
{
	return ts_load_acquire(&started) == STARTED &&
	       ts_load_relaxed(&started_serial) == ts_identity_serial();
}

void ts_service_ends(void)
{
	ts_write_release(&started, FAILED);
}

bool ts_service_has_ended(void)
{
	return ts_load_acquire(&started) == FAILED &&
	       ts_load_relaxed(&started_serial) == ts_identity_serial();
}

/* ---- waking ----------------------------------------------------------------------------- */

void ts_service_wake(void)
{
	ts_add_relaxed(&wake, 1);
	ts_fence_full(); /* woken before looking whether it sleeps */
	if (ts_load_relaxed(&asleep))
		ts_sys_futex_wake(&wake);
}

uint32_t ts_service_woken(void)
{
	return ts_load_acquire(&wake);
}

void ts_service_sleep(uint32_t seen, uint64_t most_ns, bool deep)
{
	ts_write_relaxed(&asleep, deep);
	ts_fence_full(); /* said that we sleep before looking at what woke us */
	if (ts_load_relaxed(&wake) == seen)
		(void)ts_sys_futex_wait(&wake, seen, most_ns);
}
