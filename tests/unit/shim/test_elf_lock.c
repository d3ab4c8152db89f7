/* SPDX-License-Identifier: MIT */
/* Fork children read the loader's list whatever other threads were doing there. */
#include "shim/atomic.h"
#include "shim/elf.h"
#include "shim/elf_lock.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static _Atomic int inside, done;

static bool stay(const struct ts_elf_object *object, void *data)
{
	(void)object;
	(void)data;
	ts_write_release(&inside, 1);
	while (!ts_load_acquire(&done))
		usleep(1000);
	return true;
}

static void *read_list(void *unused)
{
	(void)ts_elf_each(stay, NULL);
	return unused;
}

static bool count(const struct ts_elf_object *object, void *data)
{
	(void)object;
	++*(unsigned *)data;
	return false;
}

static unsigned objects(void)
{
	unsigned all = 0;
	(void)ts_elf_each(count, &all);
	return all;
}

static int run_child(unsigned wanted)
{
	pid_t child = fork();
	if (child == 0) {
		(void)signal(SIGALRM, SIG_DFL);
		(void)alarm(60); /* a guard */
		/* And its own children. */
		pid_t grandchild = fork();
		if (grandchild == 0)
			_exit(objects() == wanted ? 0 : 1);
		int status = -1;
		(void)waitpid(grandchild, &status, 0);
		_exit(status == 0 && objects() == wanted ? 0 : 1);
	}
	int status = -1;
	(void)waitpid(child, &status, 0);
	return status;
}

TestSuite(elf_lock, .init = ts_elf_lock_init);

Test(elf_lock, a_thread_in_the_list_at_a_fork)
{
	unsigned wanted = objects();
	pthread_t thread;
	cr_assert(eq(int, run_child(wanted), 0), "nobody is there");
	cr_assert(eq(int, pthread_create(&thread, NULL, read_list, NULL), 0));
	while (!ts_load_acquire(&inside))
		usleep(1000);
	cr_expect(eq(int, run_child(wanted), 0));
	ts_write_release(&done, 1);
	(void)pthread_join(thread, NULL);
	cr_expect(eq(u32, objects(), wanted), "as it was in the parent");
}
