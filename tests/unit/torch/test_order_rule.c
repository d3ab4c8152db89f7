/* SPDX-License-Identifier: MIT */
/*
 * The rule of the free order, by jobs of different speed (tests/unit/torch/speeds.h): how often
 * each sample is made, and whether what each job is given is still a shuffle.
 */
#include "speeds.h"

#include "fixture.h"

TestSuite(order_rule, .init = torch_init, .fini = fixture_finish);
TestSuite(order_nodes, .init = speeds_begin_nodes, .fini = fixture_finish);

Test(order_rule, two_speeds)
{
	struct speeds_job *jobs = speeds_begin();
	double made = speeds_run(jobs, 2, (const double[]){1, .5});

	cr_expect(made <= 1.03, "%f", made);
	speeds_expect_shuffled(jobs, 2, SPEEDS_NEAR);
	speeds_end(jobs);
}

Test(order_rule, nearly_one_speed)
{
	struct speeds_job *jobs = speeds_begin();
	double made = speeds_run(jobs, 2, (const double[]){1, .9});

	cr_expect(made <= 1.03, "%f", made);
	/* The jobs take turns in front: what making costs slows the first down. */
	speeds_expect_shuffled(jobs, 2, 100);
	speeds_end(jobs);
}

Test(order_rule, four_speeds)
{
	struct speeds_job *jobs = speeds_begin();
	double made = speeds_run(jobs, 4, (const double[]){1, .8, .5, .25});

	cr_expect(made <= 1.05, "%f", made);
	speeds_expect_shuffled(jobs, 4, SPEEDS_NEAR);
	speeds_end(jobs);
}

Test(order_rule, in_step)
{
	struct speeds_job *jobs = speeds_begin();
	double made = speeds_run(jobs, 4, (const double[]){1, 1, 1, 1});

	cr_expect(made <= 1.03, "%f", made);
	speeds_expect_shuffled(jobs, 4, SPEEDS_NEAR);
	speeds_end(jobs);
}

/* ---- on nodes of their own -------------------------------------------------------------- */

/* As above; where the front is known late, more come again soon. */
static double made_by_nodes(unsigned count, const double *speeds)
{
	struct speeds_job *jobs = speeds_begin();
	double made = speeds_run(jobs, count, speeds);

	speeds_expect_shuffled(jobs, count, 150);
	speeds_end(jobs);
	return made;
}

Test(order_nodes, two_speeds)
{
	double made = made_by_nodes(2, (const double[]){1, .5});

	cr_expect(made <= 1.1, "%f", made);
}

/* Half of what the slower one is given. */
Test(order_nodes, two_speeds_without_notes)
{
	speeds_tell_nothing();
	double made = made_by_nodes(2, (const double[]){1, .5});

	cr_expect(made >= 1.4, "%f", made);
}

Test(order_nodes, nearly_one_speed)
{
	double made = made_by_nodes(2, (const double[]){1, .9});

	cr_expect(made <= 1.03, "%f", made);
}

Test(order_nodes, four_speeds)
{
	double made = made_by_nodes(4, (const double[]){1, .8, .5, .25});

	cr_expect(made <= 1.2, "%f", made);
}

Test(order_nodes, in_step)
{
	double made = made_by_nodes(4, (const double[]){1, 1, 1, 1});

	cr_expect(made <= 1.03, "%f", made);
}
