# SPDX-License-Identifier: MIT
"""Sites of other kinds: what each has in slurm.conf needs daemons of its own."""

import os
import subprocess

import pytest

import real_slurm
import support
from site_core import STATISTICS, all_up, decoder, meet, probes, shared

pytestmark = pytest.mark.whole


def test_a_prolog_that_the_first_step_starts():
    """Without PrologFlags=Alloc; the node of the batch script has a server before the others."""
    with real_slurm.Site(2, "nodes = auto\nmemory = 64M\n", {"PrologFlags": None}) as site:
        output = site.done("srun probe; " + all_up(2), "-N2", "--ntasks-per-node=1")
        assert [maps for _, maps, _ in probes(output)] == [1, 1]
        site.settle()


def test_each_job_has_shared_memory_of_its_own():
    """job_container/tmpfs: the tasks of a job share, others do not see it."""
    conf = {"JobContainerType": "job_container/tmpfs", "PrologFlags": "Contain"}
    files = {"job_container.conf": "AutoBasePath=true\nBasePath=/run/site/containers\n"}
    # Linux 6.18 numbers namespaces by processor, and a mount namespace can be kept only in an older one.
    with real_slurm.Site(2, "nodes = auto\nmemory = 64M\n", conf, files, ["taskset", "-c", "0"]) as site:
        command = decoder(site)
        alone = site.done(command, TSSHIM_SLURM="off")
        # What both have asked for once is published the next time.
        task = "%s; %s > $SLURM_PROCID.txt; %s" % (
            meet("container", 2), "; ".join(["%s > $SLURM_PROCID.txt" % command] * 3 + [command]), meet("container-end", 2))
        job = site.sbatch("srun -n2 sh -c '%s'\n%s\nls /dev/shm\nprobe" % (task, STATISTICS), "-n2", "-N1")
        site.wait(job)
        assert [support.facts(site.read("/run/site/out/%d.txt" % number)) for number in range(2)] == [support.facts(alone)] * 2
        assert shared(site, job) > 0
        assert "tsshim." in site.output(job) and site.shared(1) == []
        output = site.done("srun probe; " + all_up(2), "-N2", "--ntasks-per-node=1")
        assert [maps for _, maps, _ in probes(output)] == [1, 1]
        site.settle()


def cgroups():
    """Directories of Slurm's where memory is limited; Skip where it would not be ours, or cannot be."""
    top = "/sys/fs/cgroup/memory"
    if not os.path.exists(top + "/release_agent"):
        raise support.Skip("cgroup", "needs the root of cgroup v1's memory controller")
    for name in ("slurm", "slurm_node1"):
        if os.path.exists(os.path.join(top, name)) and subprocess.run(["pidof", "slurmd"]).returncode == 0:
            raise support.Skip("cgroup", "a Slurm runs on this machine")
    return top


def remove_cgroups():
    """What slurmd and slurmstepd have made; they leave the upper ones."""
    for controller in os.listdir("/sys/fs/cgroup"):
        for name in ("slurm", "slurm_node1"):
            place = os.path.join("/sys/fs/cgroup", controller, name)
            for where, _, _ in os.walk(place, topdown=False) if os.path.isdir(place) else ():
                os.rmdir(where)


def test_a_job_within_a_limit_of_memory():
    """task/cgroup limits a task to what it asked for; the ring takes a part of that at most."""
    cgroups()
    remove_cgroups()
    conf = {"TaskPlugin": "task/cgroup", "SelectTypeParameters": "CR_CPU_Memory", "ProctrackType": "proctrack/cgroup"}
    files = {"cgroup.conf": "CgroupPlugin=cgroup/v1\nConstrainRAMSpace=yes\nConstrainSwapSpace=no\n"}
    try:
        with real_slurm.Site(1, "", conf, files) as site:
            command = decoder(site)
            alone = site.done(command, "--mem=500M", TSSHIM_SLURM="off")
            limit = "sed -n 's/^hierarchical_memory_limit //p' /sys/fs/cgroup/memory$(sed -n 's/^[0-9]*:memory://p' /proc/self/cgroup)/memory.stat"
            script = "%s\n%s\n%s\n%s >&2" % (meet("memory", 2), command, meet("memory-end", 2), limit)
            jobs = [site.sbatch(script, "--mem=64M", "--error=/run/site/out/%j.err") for _ in range(2)]
            site.wait(*jobs)
            for job in jobs:
                assert support.facts(site.output(job)) == support.facts(alone)
                assert int(site.read("/run/site/out/%d.err" % job)) == 64 << 20
            site.settle()
    finally:
        remove_cgroups()


def test_all_goes_when_the_starter_is_killed():
    """A process that starts a site and is killed leaves neither processes nor files, nor anything of the network."""
    program = "import sys, time\nsys.path[:0] = %r\nimport real_slurm\n" \
              "with real_slurm.Site(1) as site:\n    print(site.pid, flush=True)\n    time.sleep(1000)\n" % (
                  [os.path.dirname(os.path.abspath(__file__)), support.HERE],)
    starter = subprocess.Popen([support.PYTHON, "-c", program], stdout=subprocess.PIPE, text=True, env=dict(os.environ))
    pid = int(starter.stdout.readline())
    space = os.stat("/proc/%d/ns/pid" % pid).st_ino
    starter.kill()
    starter.communicate()

    def left():
        found = []
        for process in filter(str.isdigit, os.listdir("/proc")):
            try:
                if os.stat("/proc/%s/ns/pid" % process).st_ino == space:
                    found.append(process)
            except OSError:
                pass
        return found
    support.wait_until(lambda: not left(), left)
