# SPDX-License-Identifier: MIT
"""
Jobs that end by a signal, all of a group: what they leave goes when a job of another group starts or
ends, or with a helper process of theirs.  Nobody comes back to the group itself.
"""

import contextlib
import glob
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time

if __name__ == "__main__":  # a trainer that goes on for ever: WORKERS PICTURE...
    import numpy
    import torch
    from PIL import Image
    from torch.utils.data import DataLoader, Dataset

    FILES = sys.argv[2:]

    class Pictures(Dataset):
        """Each of them many times."""

        def __len__(self):
            return 1000000

        def __getitem__(self, index):
            picture = Image.open(FILES[index % len(FILES)]).convert("RGB").resize((32, 32))
            return torch.from_numpy(numpy.array(picture))

    for number, _ in enumerate(DataLoader(Pictures(), batch_size=4, num_workers=int(sys.argv[1]))):
        if number == 5:
            print("ready", flush=True)
        time.sleep(0.01)

import pytest

import support
from support import PYTHON, Group, run, start, victim, wait_until

# By default these end nobody.
HARMLESS = {signal.SIGCHLD, signal.SIGCONT, signal.SIGURG, signal.SIGWINCH, signal.SIGSTOP,
            signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU}

RING = "12M"

# A Python program that decodes, says so, and goes on as FATE says.
JOINS = """
import os, sys, time
from PIL import Image
def decode():
    Image.open(sys.argv[1]).convert("RGB").tobytes()
def say(word):
    print(word, flush=True)
"""
FATES = {
    "waits": "decode(); say('joined'); sys.stdin.readline()",
    # As torch's workers do when their trainer has gone: no destructor runs.
    "forks": """
if os.fork() == 0:
    decode(); say(os.getpid()); sys.stdin.readline(); os._exit(0)
time.sleep(3600)
""",
    "execs": """
decode(); say('joined')
del os.environ['LD_PRELOAD']
os.execvp('sleep', ['sleep', '3600'])
""",
}


def endless():
    return [victim("decode"), "--repeat", "1000000", *support.pictures("s_baseline")]


def objects(group):
    """All that lies in shared memory for @group, but its ledger."""
    return sorted(set(glob.glob("/dev/shm/" + support.shared_name(group.name, "*")))
                  - set(group.leftovers("ledger")))


def only_ledger(*groups):
    for group in groups:
        assert objects(group) == [], (group.settings, objects(group))
        assert group.leftovers("ledger"), group.settings


@contextlib.contextmanager
def as_by_default(*numbers):
    """What is started in the block ignores none of the signals, as it would below nohup(1)."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in numbers
              if signal.getsignal(number) == signal.SIG_IGN}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def running(command, group, count=1, **more):
    """@count jobs that have joined @group; whatever is left of them ends with the block."""
    env = group.environment(**more)
    with as_by_default(*signal.valid_signals()):
        jobs = [subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 stderr=subprocess.DEVNULL, text=True, start_new_session=True)
                for _ in range(count)]
    try:
        for job in jobs:
            wait_until(lambda: job.pid in members(group), "it joins")
        yield jobs
    finally:
        for job in jobs:
            for number in (signal.SIGCONT, signal.SIGKILL):
                with contextlib.suppress(ProcessLookupError):
                    support.signal_job(job, number)
            job.communicate()


def members(group):
    return {job["pid"] for job in group.statistics().get("jobs", [])}


def python(fate):
    return [PYTHON, "-c", JOINS + FATES[fate], *support.pictures("s_baseline")]


def end(jobs, number):
    """All at once, as a terminal or a scheduler does."""
    for job in jobs:
        support.signal_job(job, number)
    for job in jobs:
        job.communicate()
        assert job.returncode == -number, (job.returncode, number)


def others_job(*dead, alive=None):
    """Jobs of a group that has nothing to do with any of these, from beginning to end.  Of groups that
    are @dead a ledger is left, of one that is @alive all that there was.

    A job looks for 1 ms when it starts and begins with no other group after 20 ms when it ends
    (ts_left_remove()).  So one job is enough on an idle machine only; each clears some more."""
    before = alive and objects(alive)
    with Group() as other:
        def clears():
            assert run([victim("decode"), *support.pictures("s_baseline")],
                       other.environment()).status == 0
            return not any(map(objects, dead))
        wait_until(clears, "nothing is left")
    only_ledger(*dead)
    assert not alive or before and objects(alive) == before


def test_every_signal():
    """One job each, and by those that people and schedulers send three."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.ExitStack() as stack:
        groups, all_jobs = [], []
        for number in sorted(signal.valid_signals() - HARMLESS):
            if number >= signal.SIGRTMIN + 1:
                continue  # as the first of them
            group = stack.enter_context(Group(TSSHIM_RING=RING))
            often = number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL)
            jobs = stack.enter_context(running(endless(), group, 3 if often else 1))
            groups.append(group)
            all_jobs.append((jobs, number))
        assert len(groups) > 20
        for jobs, number in all_jobs:
            end(jobs, number)
        others_job(*groups)


def test_when_a_job_starts():
    """While it runs, and before it has ended."""
    with Group() as dead, Group() as other:
        with running(endless(), dead) as jobs:
            end(jobs, signal.SIGKILL)
        with running(endless(), other) as jobs:
            wait_until(lambda: not objects(dead), "the job that starts looks")
            assert jobs[0].poll() is None
        only_ledger(dead)


def test_when_a_job_ends():
    """It was there before the others were killed."""
    with Group() as dead, Group() as other, running(python("waits"), other) as others:
        with running(endless(), dead) as jobs:
            end(jobs, signal.SIGKILL)
        others[0].communicate("\n")
        assert others[0].returncode == 0
        only_ledger(dead)


def test_when_tsrun_starts_one():
    with Group() as dead, running(endless(), dead) as jobs:
        end(jobs, signal.SIGTERM)
        with Group() as other:
            done = run([support.TSRUN, "--group", other.name, "--", "true"])
            assert done.status == 0 and done.errors == "", done.errors
        only_ledger(dead)


def test_started_by_tsrun():
    """tsrun is replaced by the command, so the process that was started is the job."""
    command = [support.TSRUN, "--group", "%s", "--ring", RING, "--", *endless()]
    with Group() as dead:
        command[2] = dead.name
        with running(command, dead, 3, LD_PRELOAD="") as jobs:
            end(jobs, signal.SIGINT)
        others_job(dead)


def test_timeout():
    """timeout(1) whose time is over."""
    with Group() as dead:
        command = ["timeout", "3600", *endless()]
        watch = start(command, dead.environment())
        try:
            wait_until(lambda: members(dead), "it joins")
            watch.send_signal(signal.SIGALRM)
            assert support.finish(watch).status == 124
        finally:
            watch.kill()
        others_job(dead)


def test_a_stopped_job_keeps_its_things():
    with Group() as stopped, running(endless(), stopped, 2) as jobs:
        for job in jobs:
            support.signal_job(job, signal.SIGSTOP)
        others_job(alive=stopped)
        end(jobs, signal.SIGKILL)
        others_job(stopped)


def test_who_is_not_waited_for_is_dead():
    """A zombie, as of a job whose parent does not look, or that is traced and was killed."""
    with Group() as dead, running(endless(), dead) as jobs:
        support.signal_job(jobs[0], signal.SIGKILL)
        os.waitid(os.P_PID, jobs[0].pid, os.WEXITED | os.WNOWAIT)
        others_job(dead)


def test_a_traced_job():
    """Stopped under a tracer that does not go on it lives; then it is killed there."""
    if run(["strace", "-V"]).status != 0:
        raise support.Skip("strace", "not installed")
    with Group() as traced, tempfile.TemporaryDirectory() as folder:
        command = ["strace", "-f", "-o", os.path.join(folder, "trace"), "-E",
                   "LD_PRELOAD=" + support.LIBRARY, *endless()]
        tracer = start(command, traced.environment(LD_PRELOAD=""))
        try:
            pid, = wait_until(lambda: members(traced), "it joins")
            tracer.send_signal(signal.SIGSTOP)  # who sees nothing that becomes of the job
            others_job(alive=traced)
            os.kill(pid, signal.SIGKILL)
            tracer.send_signal(signal.SIGCONT)
            support.finish(tracer)
            others_job(traced)
        finally:
            with contextlib.suppress(ProcessLookupError):
                support.signal_job(tracer, signal.SIGCONT)
                support.signal_job(tracer, signal.SIGKILL)
            tracer.communicate()


def state(pid):
    """State, parent, group, session ... of a process, see proc(5); of none: that it is dead."""
    try:
        with open("/proc/%d/stat" % pid, encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return ["X", 0, 0, 0]


def is_over(pid):
    return state(pid)[0] in "ZX"


def session_is_over(leader):
    """Whether none of the processes that @leader began is left."""
    found = (state(int(name)) for name in os.listdir("/proc") if name.isdigit())
    return all(one[3] != str(leader) or one[0] in "ZX" for one in found)


def test_workers_outlive_their_trainer(group):
    """What an orphan uses stays until it ends, which is 5 s later for those of torch."""
    with contextlib.ExitStack() as stack:
        job = subprocess.Popen(python("forks"), env=group.environment(), text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, start_new_session=True)
        stack.callback(support.signal_job, job, signal.SIGKILL)
        orphan = int(job.stdout.readline())
        job.kill()
        job.wait()
        others_job(alive=group)
        job.stdin.close()
        wait_until(lambda: is_over(orphan), "the orphan ends")
        stack.pop_all()
        others_job(group)


def test_what_the_job_has_become(group):
    """A program that a job becomes by exec is that job, also without the library."""
    with running(python('execs'), group) as jobs:
        wait_until(lambda: open("/proc/%d/comm" % jobs[0].pid).read() == "sleep\n", "exec")
        others_job(alive=group)
        end(jobs, signal.SIGTERM)
        others_job(group)


def test_a_kept_ring_has_its_time():
    with Group(TSSHIM_KEEP="10min") as kept:
        with running(endless(), kept, 2) as jobs:
            end(jobs, signal.SIGKILL)
        others_job()
        assert kept.leftovers("ring")
        kept.expire()
        others_job(kept)


def test_copies_of_files():
    with tempfile.TemporaryDirectory() as folder, Group(
            support.TEST_LIBRARY, TSSHIM_STAGE="shm", TSSHIM_DATASET="x=" + folder,
            TSSHIM_TEST_YOUNG_INPUTS="1") as dead:
        for name in "ab":
            support.write(os.path.join(folder, name), name * 1000)
        names = [os.path.join(folder, name) for name in "ab"]
        with running(["cat", *names, "-"], dead, 2) as jobs:
            wait_until(lambda: len(dead.leftovers("f.*")) == 2, "copies")
            end(jobs, signal.SIGHUP)
        others_job(dead)


def test_the_recorder_looks():
    """The process that writes the event log outlives its job; no other job comes."""
    with tempfile.TemporaryDirectory() as folder, Group() as other, Group(
            TSSHIM_EVENTS=os.path.join(folder, "log")) as dead:
        with running(endless(), dead, 2) as jobs, running(endless(), other) as others:
            wait_until(lambda: os.path.exists(os.path.join(folder, "log")), "a log")
            end(others, signal.SIGKILL)
            end(jobs, signal.SIGKILL)
        wait_until(lambda: not objects(dead) and not objects(other), "the recorder looks")
        only_ledger(dead, other)


def trainer(workers):
    return [support.torch_python(), __file__, str(workers),
            *support.pictures("s_4")]


@pytest.mark.parametrize("number, workers, count", [
    (signal.SIGINT, 2, 2), (signal.SIGKILL, 2, 1), support.left_unless(False, signal.SIGTERM, 2, 3),
    support.left_unless(False, signal.SIGINT, 0, 3)])
def test_trainers(number, workers, count):
    """Trainers with workers of torch's, all of whose processes get the signal at once."""
    with Group(TSSHIM_SHARE="auto") as dead:
        with contextlib.ExitStack() as stack:
            jobs = []
            for _ in range(count):
                job = start(trainer(workers), dead.environment())
                stack.callback(job.communicate)
                stack.callback(support.signal_job, job, signal.SIGKILL)
                jobs.append(job)
            for job in jobs:
                assert job.stdout.readline() == "ready\n"
            assert dead.leftovers("loaders")
            for job in jobs:
                support.signal_job(job, number)
            for job in jobs:
                job.wait(support.TIMEOUT)
            stack.pop_all()
            for job in jobs:
                wait_until(lambda: session_is_over(job.pid), "its workers end")
                job.communicate()
        others_job(dead)
