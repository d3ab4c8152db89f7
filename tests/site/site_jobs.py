# SPDX-License-Identifier: MIT
"""
More jobs under a real Slurm, one site for all: steps side by side, requeue and scancel in every phase, nodes and the
controller that go away meanwhile, and what users set.
"""

import contextlib
import os

import pytest

import support
from site_core import HELD, SITE, STATISTICS, all_up, decoder, meet, probes, shared, start_again  # noqa: F401

pytestmark = pytest.mark.whole


def test_steps_that_overlap_share(site):
    command = decoder(site)
    step = "sh -c '%s; %s > %%s; %s'" % (meet("steps", 2), command, meet("steps-end", 2))
    job = site.sbatch("srun --overlap -n1 %s & srun --overlap -n1 %s & wait\n%s" % (
        step % "one", step % "two", STATISTICS), "-n2", "-N1", directory=directory_of(site, "steps"))
    site.wait(job)
    os.rename(site.at("/run/site/out/steps/%d.json" % job), site.at("/run/site/out/%d.json" % job))
    one, two = (support.facts(site.read("/run/site/out/steps/" + name)) for name in ("one", "two"))
    assert one and one == two
    assert shared(site, job) > 0


def directory_of(site, name, user="alice"):
    """A new directory of that user's below /run/site/out."""
    site.run(["mkdir", "/run/site/out/" + name], user=user)
    return "/run/site/out/" + name


def test_exclusive_jobs_come_one_after_the_other(site):
    jobs = [site.sbatch("probe; tsrun stats --group slurm || true", "--exclusive", "-wnode1") for _ in range(2)]
    site.wait(*jobs)
    assert site.fact(jobs[0], "EndTime") <= site.fact(jobs[1], "StartTime")
    for job in jobs:
        assert probes(site.output(job))[0][1] == 1


# ---- requeue and scancel in every phase ----

def held(site, script, name):
    """That script waits, on the nodes of the next job, for release(name)."""
    return site.script(script, HELD.format(name))


def again(name):
    """A job that ends when it has been started again."""
    return "[ \"${SLURM_RESTART_COUNT-0}\" = 0 ] || exit 0\n: > /run/site/go/%s\nawait never" % name


def test_a_pending_job_is_requeued_and_cancelled(site):
    job = site.sbatch("probe", "--hold", "-N2")
    site.run(["scontrol", "requeue", str(job)], status=None)
    site.run(["scontrol", "release", str(job)])
    start_again(site, job)
    job = site.sbatch("probe", "--hold", "-N2")
    site.run(["scancel", str(job)])
    site.wait(job, state="CANCELLED")


@pytest.mark.parametrize("what", ["requeue", "cancel"])
def test_a_job_whose_prolog_runs_is_requeued_or_cancelled(site, what):
    name = what + "-prolog"
    with held(site, "prolog", name):
        job = site.sbatch("true", "-N2", "--requeue", "--open-mode=append")
        site.wait_for(name + ".in")
        if what == "requeue":
            site.run(["scontrol", "requeue", str(job)])
        else:
            site.run(["scancel", str(job)])
        site.go(name + ".out")
        if what == "requeue":
            start_again(site, job)
        else:
            site.wait(job, state="CANCELLED")
        support.wait_until(lambda: site.ask("squeue", "-h") == "", site.told)


@pytest.mark.parametrize("what", ["requeue", "cancel"])
def test_a_job_whose_task_prolog_runs_is_requeued_or_cancelled(site, what):
    name = what + "-taskprolog"
    with held(site, "taskprolog", name):
        job = site.sbatch("true", "-N2", "--requeue", "--open-mode=append")
        site.wait_for(name + ".in")
        site.run(["scontrol", "requeue", str(job)] if what == "requeue" else ["scancel", str(job)])
        site.go(name + ".out")
        if what == "requeue":
            start_again(site, job)
        else:
            site.wait(job, state="CANCELLED")


@pytest.mark.parametrize("what", ["requeue", "cancel"])
def test_a_job_whose_epilog_runs_is_requeued_or_cancelled(site, what):
    name = what + "-epilog"
    with held(site, "epilog", name):
        job = site.sbatch("true", "-N2", "--requeue", "--open-mode=append")
        site.wait_for(name + ".in")
        site.run(["scontrol", "requeue", str(job)] if what == "requeue" else ["scancel", str(job)], status=None)
        site.go(name + ".out")
        if what == "requeue":
            start_again(site, job)
        support.wait_until(lambda: site.ask("squeue", "-h") == "", site.told)


def test_a_step_is_cancelled_and_the_job_goes_on(site):
    job = site.sbatch("srun sh -c ': > /run/site/go/step; await never' || true\nsrun probe", "-N2", "--ntasks-per-node=1")
    site.wait_for("step")
    site.run(["scancel", "%d.0" % job])
    site.wait(job)
    assert [maps for _, maps, _ in probes(site.output(job))] == [1, 1]


# ---- nodes and the controller ----

def test_a_node_goes_down_and_comes_back(site):
    job = site.sbatch(again("down"), "-N2", "-wnode[1-2]", "--requeue", "--open-mode=append")
    site.wait_for("down")
    assert len(site.servers()) == 2
    site.stop_node(2, kill=True)
    site.run(["scontrol", "update", "nodename=node2", "state=down", "reason=test"])
    site.wait_state(job, "PENDING", "COMPLETING", "REQUEUED")
    site.start_node(2)
    site.run(["scontrol", "update", "nodename=node2", "state=resume"], status=None)  # it may be by itself
    start_again(site, job)


def test_a_node_that_starts_anew_has_no_trace_of_the_job(site):
    """Whatever ran there is gone, with what was in its memory, and no epilog came."""
    job = site.sbatch(": > /run/site/go/anew; await never", "-N2", "-wnode[1-2]", "--no-requeue")
    site.wait_for("anew")
    holder = site.read("/run/site/pid.2").strip()
    network = os.stat(site.at("/proc/%s/ns/net" % holder)).st_ino
    for process in filter(str.isdigit, os.listdir(site.at("/proc"))):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            if process != holder and os.stat(site.at("/proc/%s/ns/net" % process)).st_ino == network:
                site.run(["kill", "-KILL", process], status=None)
    site.run(["sh", "-c", "rm -rf /dev/shm/* /tmp/*"], node=2)
    site.run(["scontrol", "update", "nodename=node2", "state=down", "reason=test"])
    site.start_node(2)
    site.run(["scontrol", "update", "nodename=node2", "state=resume"], status=None)  # it may be by itself
    site.wait_state(job, "NODE_FAIL", "FAILED", "CANCELLED")
    site.wait_for_nodes()
    site.done("probe", "-N2", "-wnode[1-2]")


def test_a_server_whose_epilog_was_killed_goes_with_the_next(site):
    """On one of two nodes; the other one's has removed the directory."""
    with site.script("epilog", "#!/bin/sh\n[ \"$(hostname)\" = node1 ] || kill -KILL $$\nexec REAL\n"):
        site.done("true", "-N2", "-wnode[1-2]")
        support.wait_until(lambda: site.ask("squeue", "-h") == "", site.told)
        assert len(site.servers()) == 1 and site.places() == []
    site.done("true", "-wnode2")


def test_slurmd_starts_anew_beside_a_running_job(site):
    job = site.sbatch(": > /run/site/go/restart; await restarted; srun probe", "-N2", "-wnode[1-2]", "--ntasks-per-node=1")
    site.wait_for("restart")
    for number in (1, 2):
        site.stop_node(number)
        site.start_node(number)
    site.go("restarted")
    site.wait(job)
    assert [maps for _, maps, _ in probes(site.output(job))] == [1, 1]
    assert len({words["TSSHIM_CLUSTER"] for _, _, words in probes(site.output(job))}) == 1


def test_the_controller_starts_anew_beside_a_running_job(site):
    job = site.sbatch(": > /run/site/go/controller; await controller.back; probe", "-N2")
    site.wait_for("controller")
    site.stop_controller()
    site.start_controller()
    support.wait_until(lambda: site.run(["scontrol", "ping"], status=None).status == 0, site.told)
    site.go("controller.back")
    site.wait(job)
    assert [maps for _, maps, _ in probes(site.output(job))] == [1]


def test_slurmd_is_ended_while_the_prolog_runs(site):
    """It waits for the prolog, starts no job, and another one goes on."""
    with held(site, "prolog", "ended"):
        job = site.sbatch("true", "-N1", "-wnode1", "--requeue", "--open-mode=append")
        site.wait_for("ended.in")
        site.stop_node(1, meanwhile=lambda: site.go("ended.out"))
        site.start_node(1)
    start_again(site, job)


# ---- what users do ----

@pytest.mark.parametrize("variables, maps, wanted", [
    ({"TSSHIM_SLURM": "off"}, 0, {}),
    ({"TSSHIM_DISABLE": "1"}, 0, {}),
    ({"TSSHIM_GROUP": "sweep", "TSSHIM_ALIGN": "0"}, 1, {"TSSHIM_GROUP": "sweep", "TSSHIM_ALIGN": "0"}),
    ({"TSSHIM_CLUSTER": "/own"}, 1, {"TSSHIM_CLUSTER": "/own"}),
    ({"TSSHIM_CLUSTER": "/run/site/home/alice/.cache/tsshim/slurm-1"}, 1, {"TSSHIM_GROUP": "slurm"})])
def test_what_a_user_sets_counts(site, variables, maps, wanted):
    found = probes(site.done("srun probe", "-N2", "--ntasks-per-node=1", **variables))
    assert [one[1] for one in found] == [maps] * 2
    for _, _, words in found:
        assert wanted.items() <= words.items() and words.get("TSSHIM_CLUSTER") != "/run/site/home/alice/.cache/tsshim/slurm-1"


def test_a_job_without_the_user_s_environment(site):
    found = probes(site.done("export PATH=%s; srun --export=ALL probe" % "/run/site/bin:/usr/bin:/bin", "-N2", "--ntasks-per-node=1",
                             "--export=NONE", TSSHIM_GROUP="lost"))
    assert [(maps, words["TSSHIM_GROUP"], "TSSHIM_CLUSTER" in words) for _, maps, words in found] == [(1, "slurm", True)] * 2


def test_a_job_that_a_job_submits(site):
    """It has the outer LD_PRELOAD and TSSHIM_CLUSTER in its environment."""
    inner = "sbatch --parsable --wait -N2 --output=/run/site/out/inner --wrap 'echo preload $LD_PRELOAD; srun probe'"
    output = site.done("probe; " + inner, "-N2")
    (_, _, outer), = probes(output)
    text = site.read("/run/site/out/inner")
    assert "preload %s\n" % site.find("libtsshim.so") in text, text
    for _, maps, words in probes(text):
        assert maps == 1 and words["TSSHIM_CLUSTER"] != outer["TSSHIM_CLUSTER"]


def test_a_step_without_a_batch_script(site):
    output = site.run(["srun", "-N2", "--ntasks-per-node=1", "--chdir=/run/site/out", "probe"], user="alice").output
    assert [(maps, "TSSHIM_CLUSTER" in words) for _, maps, words in probes(output)] == [(1, True)] * 2


def test_a_job_of_several_components(site):
    """Its tasks all have the first component's job number, each prolog has its own component's."""
    output = site.done("srun --het-group=0,1 probe", "-N2", "--ntasks-per-node=1", ":", "-N2", "--ntasks-per-node=1")
    assert [maps for _, maps, _ in probes(output)] == [1] * 4


# ---- what administrators set ----

def test_explain_says_why_there_are_no_servers_where_homes_are_each_node_s(site):
    for number in range(1, site.count + 1):
        site.run(["sh", "-c", "mount -t tmpfs -o mode=755 none /run/site/home && mkdir -m 700 /run/site/home/alice && "
                  "chown alice:alice /run/site/home/alice"], node=number)
    try:
        output = site.done("srun probe", "-N2", "--ntasks-per-node=1", TSSHIM_SLURM="explain")
        assert [maps for _, maps, _ in probes(output)] == [1, 1]
        assert output.count("tsshim: on, group slurm") == 3
    finally:
        for number in range(1, site.count + 1):
            support.wait_until(lambda: site.ask("squeue", "-h") == "", site.told)
            assert site.run(["find", "/run/site/home/alice/.cache/tsshim", "-mindepth", "1"], node=number, status=None).output == ""
            site.run(["umount", "/run/site/home"], node=number)


def test_the_administrator_s_list_of_servers(site):
    site.write("/etc/tsshim/list", "".join("10.77.0.%d:12345\n" % (n + 1) for n in range(site.count)))
    site.write_settings("nodes = /etc/tsshim/list\nmemory = 64M\n")
    site.done("srun probe; " + all_up(site.count), "-N%d" % site.count, "--ntasks-per-node=1")
    # Two jobs at once on the same nodes want the same ports: the second goes on without.
    script = "%s; srun probe; %s" % (meet("list", 2), meet("list-end", 2))
    jobs = [site.sbatch(script, "-N2", "-wnode[1-2]", "--ntasks-per-node=1", user=user) for user in ("alice", "bob")]
    site.wait(*jobs)
    for job in jobs:
        assert [maps for _, maps, _ in probes(site.output(job))] == [1, 1]


def test_the_directory_for_staged_files(site):
    site.run(["mkdir", "-p", "/run/site/stage"])
    site.write_settings("stage = /run/site/stage\n")
    output = site.done("srun probe; ls -ld \"$TSSHIM_STAGE\"", "-wnode1")
    (_, maps, words), = probes(output)
    assert maps == 1 and words["TSSHIM_STAGE"] == "/run/site/stage/61005"
    assert "drwx------ 2 alice alice" in output, output
    support.wait_until(lambda: site.ask("squeue", "-h") == "", site.told)
    assert os.listdir(site.at("/run/site/stage")) == []


def test_settings_with_an_unknown_line_are_said_and_never_fatal(site):
    site.write_settings("nodes = auto\nenable = maybe\n")
    output = site.done("probe", "-N2", TSSHIM_SLURM="explain")
    assert "tsshim: the settings are not used: line 2 is none of ours" in output, output
    assert probes(output)[0][1] == 0
    assert "the settings of the Slurm scripts are not used: line 2 is none of ours" in site.read("/run/site/syslog")
