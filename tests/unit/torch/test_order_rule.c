/* SPDX-License-Identifier: MIT */
/*
 * The rule of the free order, by jobs of different speed (tests/unit/torch/speeds.h): how often
 * each sample is made, and whether what each job is given is still a shuffle.
 */
#include "speeds.h"

#include "fixture.h"

TestSuite(order_rule, .init = torch_init, .fini = fixture_finish);

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
