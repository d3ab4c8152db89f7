# SPDX-License-Identifier: MIT
"""
Jobs under a real Slurm: which tasks have the library, who has servers, and that no fault of our scripts costs a job or
drains a node.  What takes longer, and what comes up less often, is in site_jobs.py, site_faults.py and site_conf.py.
"""

import glob
import json
import os
import re
import shutil

import pytest

import support
from real_slurm import FREE, version

SITE = {"count": 4, "settings": "nodes = auto\nmemory = 64M\n"}


def probes(output):
    """[(node, how often the library is mapped, {variable: value})] of what bin/probe printed."""
    found = []
    for line in re.findall(r"^probe (.*)", output, re.MULTILINE):
        node, _, maps, *words = line.split()
        found.append((node, int(maps[len("lib="):]), dict(word.split("=", 1) for word in words)))
    return found


def test_each_task_of_a_job_has_the_library(site):
    found = probes(site.done("probe; srun probe", "-n3"))
    assert len(found) == 4
    for _, maps, variables in found:
        assert maps == 1 and variables == {"TSSHIM_GROUP": "slurm"}, found


def all_up(count):
    """Shell that ends when so many servers of the job are up; a busy one does not answer at once."""
    return "until tsrun cluster status --dir \"$TSSHIM_CLUSTER\" | grep '%d of %d servers are up'; do sleep 0.1; done" % (count, count)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_a_job_on_several_nodes_has_a_server_on_each(site, count):
    output = site.done("srun probe; %s" % (all_up(count) if count > 1 else ""), "-N%d" % count, "--ntasks-per-node=1")
    found = probes(output)
    assert len({node for node, _, _ in found}) == count
    assert [maps for _, maps, _ in found] == [1] * count
    assert len({variables.get("TSSHIM_CLUSTER") for _, _, variables in found}) == 1
    assert ("TSSHIM_CLUSTER" in found[0][2]) == (count > 1)


def test_an_array_shares_as_it_is_told(site):
    job = site.sbatch("probe", "--array=0-3", "--output=/run/site/out/%A.%a.out", TSSHIM_SLURM="array")
    site.wait(job)
    found = [probes(site.output("%d.%d" % (job, task))) for task in range(4)]
    assert [[(maps, words["TSSHIM_GROUP"]) for _, maps, words in one] for one in found] == [[(1, "slurm-a%d" % job)]] * 4


def test_jobs_of_an_array_on_several_nodes_have_servers_of_their_own(site):
    job = site.sbatch(all_up(2) + "; probe", "--array=0-1", "-N2", "--output=/run/site/out/%A.%a.out")
    site.wait(job)
    outputs = [site.output("%d.%d" % (job, task)) for task in range(2)]
    places = {probes(output)[0][2]["TSSHIM_CLUSTER"] for output in outputs}
    assert len(places) == 2, places


def hand_over(site, *paths):
    """Copies of files that jobs find in /run/site/files."""
    os.makedirs(site.at("/run/site/files"), exist_ok=True)
    os.chmod(site.at("/run/site/files"), 0o755)
    return [shutil.copy(path, site.at("/run/site/files")) and "/run/site/files/" + os.path.basename(path) for path in paths]


def decoder(site, repeat=40):
    """A command that has something to share."""
    return " ".join([*hand_over(site, support.victim("decode")), "--repeat", str(repeat),
                     *hand_over(site, *support.pictures("s_4"))])


STATISTICS = "tsrun stats --json --group slurm > $SLURM_JOB_ID.json"


def shared(site, *jobs):
    """Pictures that these jobs took from one another, by what they found at their ends."""
    rows = [json.loads(site.read("/run/site/out/%d.json" % job))["datasets"] for job in jobs]
    return max(sum(row["pixels"]["shared"] for row in one) for one in rows)


def meet(name, count):
    """Shell that waits until so many jobs have come here."""
    return ": > /run/site/go/%s.$SLURM_JOB_ID.${SLURM_STEP_ID-}.$SLURM_PROCID; until [ $(ls -d /run/site/go/%s.* | wc -l) -ge %d ]; " \
           "do sleep 0.05; done" % (name, name, count)


def test_two_jobs_of_a_user_share_and_print_what_they_print_alone(site):
    command = decoder(site)
    alone = site.done(command, TSSHIM_SLURM="off")
    jobs = [site.sbatch("%s\n%s\n%s\n%s" % (meet("pair", 2), command, STATISTICS, meet("pairs-end", 2)), "-wnode1")
            for _ in range(2)]
    site.wait(*jobs)
    for job in jobs:
        assert support.facts(site.output(job)) == support.facts(alone)
    assert shared(site, *jobs) > 0


def test_two_users_at_once_share_nothing(site):
    command = decoder(site)
    script = "%s\n%s > $SLURM_JOB_ID.txt\nchmod 644 $SLURM_JOB_ID.txt\n%s\n%s\n%s"
    jobs = [site.sbatch(script % (meet("users", 2), command, STATISTICS, meet("users-end", 2), all_up(2)), "-N2", "-wnode[1-2]", user=user)
            for user in ("alice", "bob")]
    site.wait(*jobs)
    assert [shared(site, job) for job in jobs] == [0, 0]


# ---- requeue, scancel ----

HELD = """#!/bin/sh
# Waits for the test, then is ours.
: > "/run/site/go/{0}.in"
until [ -e "/run/site/go/{0}.out" ]; do sleep 0.02; done
exec REAL
"""
NEXT_TIME = "[ \"${SLURM_RESTART_COUNT-0}\" = 0 ] || { %s; exit 0; }\n" % all_up(2)


def test_a_running_job_is_requeued(site):
    job = site.sbatch(NEXT_TIME + ": > /run/site/go/requeue; await never", "-N2", "--requeue", "--open-mode=append")
    site.wait_for("requeue")
    assert len(site.servers()) == 2
    site.run(["scontrol", "requeue", str(job)])
    start_again(site, job)
    assert "2 of 2 servers are up" in site.output(job)


def start_again(site, job):
    """The requeued job runs to its end; Slurm makes such a job wait for two minutes unless it is told not to."""
    def begun():
        states = site.wait_state(job, "PENDING", "RUNNING", "COMPLETED", "CONFIGURING", "COMPLETING", "REQUEUED")
        if states == ["PENDING"]:
            site.run(["scontrol", "update", "jobid=%d" % job, "starttime=now"], status=None)
        return states == ["COMPLETED"]
    support.wait_until(begun, lambda: site.told(job), 120)


def test_a_running_job_is_cancelled(site):
    job = site.sbatch("srun sh -c ': > /run/site/go/cancel.$SLURM_PROCID; await never'", "-N2", "--ntasks-per-node=1")
    for number in range(2):
        site.wait_for("cancel.%d" % number)
    site.run(["scancel", str(job)], user="alice")
    site.wait(job, state="CANCELLED")


# ---- faults of our scripts ----

FAULTS = {"missing": None, "failing": "#!/bin/sh\nexit 3\n", "killed": "#!/bin/sh\nkill -KILL $$\n",
          "hanging": "#!/bin/sh\ntrap '' TERM\nwhile :; do sleep 1; done\n"}


@pytest.mark.parametrize("fault", [support.left_unless(fault in ("missing", "killed"), fault) for fault in FAULTS])
@pytest.mark.parametrize("script", ["prolog", "taskprolog", "epilog"])
def test_a_script_with_a_fault_costs_no_job_and_drains_no_node(site, script, fault):
    with site.script(script, FAULTS[fault]):
        site.write_guards(patient=fault != "hanging")
        [(_, maps, variables)] = probes(site.done("probe", "-wnode1"))
        assert maps == (script != "taskprolog") and "TSSHIM_CLUSTER" not in variables
        support.wait_until(lambda: site.ask("squeue", "-h") == "", site.told)
        assert set(site.node_states().values()) <= FREE, site.told()
    # What an epilog has left the next one removes.
    site.write_guards()
    site.done("probe", "-wnode1")


def test_a_script_without_the_guard_costs_the_job(site):
    """That is, the test above would notice: the same fault where Slurm meets it."""
    path = "/etc/tsshim/prolog"
    os.rename(site.at(path), site.at(path + ".kept"))
    job = site.sbatch("probe", "-wnode1")
    support.wait_until(lambda: "drain" in site.node_states()["node1"], site.told)
    os.rename(site.at(path + ".kept"), site.at(path))
    site.run(["scancel", str(job)])
    site.wait(job, state="CANCELLED")
    support.wait_until(lambda: site.node_states()["node1"] == "drained", site.told)
    site.run(["scontrol", "update", "nodename=node1", "state=resume"])
    site.wait_for_nodes()


# ---- what Slurm passes ----

RECORDER = "#!/bin/sh\nenv > /run/site/recorded.{0}\nexec REAL\n"


def test_slurm_passes_what_the_table_says(site):
    table = [line.split("\t") for line in support.read(os.path.join(os.path.dirname(__file__), "environment.tsv")).splitlines()
             if not line.startswith("#")]
    os.chmod(site.at("/run/site"), 0o1777)
    recorded = {}
    with site.script("prolog", RECORDER.format("prolog")), site.script("epilog", RECORDER.format("epilog")), \
            site.script("taskprolog", RECORDER.format("taskprolog")):
        site.done("true", "--array=7", "-wnode1")
        support.wait_until(lambda: site.ask("squeue", "-h") == "", site.told)
        for script in ("prolog", "epilog", "taskprolog"):
            recorded[script] = dict(line.split("=", 1) for line in site.read("/run/site/recorded." + script).splitlines()
                                    if line.startswith("SLURM"))
    os.chmod(site.at("/run/site"), 0o755)
    now = "%02d.%02d" % version()
    for script, name, since, when, _ in table:
        if when == "always" or when == "array":
            assert (name in recorded[script]) == (since <= now), (script, name, since, now)
    assert recorded["prolog"]["SLURM_JOB_UID"] == "61005" == recorded["epilog"]["SLURM_JOB_UID"]


# ---- samples ----

JOB = "/run/site/tests/across_job.py"
PATIENT = "200"  # times as long as usual may what is awaited take


@pytest.fixture(name="tested")
def with_tests(site):
    """The site with the library of tests, which knows more patience, and with the job of tests/e2e/across.py."""
    os.makedirs(site.at("/run/site/tests"), mode=0o755)
    for path in glob.glob(os.path.join(support.HERE, "*.py")):
        shutil.copy(path, site.at("/run/site/tests"))
    site.run(["chmod", "-R", "a+rX", "/run/site/tests"])
    library = site.find("libtsshim.so")
    shutil.copy(site.at(library), site.at(library + ".kept"))
    shutil.copy(support.TEST_LIBRARY, site.at(library))
    for helper in ("tsshim-peer-test", "tsshim-stager-test"):
        shutil.copy(os.path.join(support.BUILD, helper), site.at(os.path.dirname(library)))
    yield site
    os.rename(site.at(library + ".kept"), site.at(library))


def test_two_nodes_make_each_sample_once(tested):
    site = tested
    os.mkdir(site.at("/run/site/go/meet"))
    os.chmod(site.at("/run/site/go/meet"), 0o1777)
    run = "/usr/bin/python3 %s --seed 1 > samples.$SLURM_PROCID; tsrun stats --json --group slurm > stats.$SLURM_PROCID" % JOB
    site.done("mkdir across; cd across; export TSSHIM_TEST_MEET=2:/run/site/go/meet; srun sh -c '%s'" % run,
              "-N2", "--ntasks-per-node=1", TSSHIM_ALIGN="7", TSSHIM_ACROSS="nodes", TSSHIM_RING="256M", TSSHIM_VERIFY="0",
              TSSHIM_QUIET="1", OMP_NUM_THREADS="1", TSSHIM_TEST_PATIENCE=PATIENT)
    site.done("/usr/bin/python3 %s --seed 1 --cost 0 > across/samples.2" % JOB, TSSHIM_ALIGN="7", TSSHIM_ACROSS="off",
              TSSHIM_QUIET="1", OMP_NUM_THREADS="1")
    *outputs, plain = (site.read("/run/site/out/across/samples.%d" % task) for task in range(3))
    told = [json.loads(site.read("/run/site/out/across/stats.%d" % task)) for task in range(2)]
    assert [support.facts(output) for output in outputs] == [support.facts(plain)] * 2

    def count(name):
        return sum(row.get("kinds", row)["sample"][name] for statistics in told for row in statistics["datasets"])
    given = [line for output in outputs for line in output.splitlines() if line.startswith("epoch ")]
    distinct = len({tuple(line.split()[2:]) for line in given})
    assert count("produced") + count("shared") == len(given)
    assert distinct <= count("produced") <= 1.1 * distinct, (count("produced"), distinct, told)
    print("# made %d of %d distinct samples" % (count("produced"), distinct))
