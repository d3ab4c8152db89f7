# SPDX-License-Identifier: MIT
"""The hand-over pool: trainers see with it what they see without it.

The pinning thread of pin_memory=True needs CUDA and is not tried here; receiving in a thread is.
"""

import contextlib
import glob
import os
import re
import signal
import subprocess

import pytest

import support
import warm
from support import PYTHON

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
VICTIM = os.path.join(HERE, "pool_victim.py")
PACKAGE = os.path.join(ROOT, "hooks", "torch", "python")

#: Scenario and the least number of tensors that must have come through the pool.
SCENARIOS = [
    ("kept", 12), ("plain", 20), ("inplace", 15), ("sent_on", 15), ("aliased", 12),
    ("forked", 15), ("labels_kept", 15), ("properties", 5), ("broken_off", 12), ("dropped", 12),
    ("killed", 10), ("persistent", 20), ("spawned", 8), ("forkserver", 8), ("interleaved", 20),
    ("threads", 10), ("nested", 30), ("custom", 12), ("zeroed", 15), ("views", 15),
    ("worker_keeps", 15), ("sent_again", 15), ("worker_forks", 4), ("told_others", 0),
    ("sizes", 40), ("file_system", 0), ("few_files", 4),
    ("made", 60), ("flowing", 60), ("own", 60), ("in_common", 10), ("tensors_by_the_dozen", 190),
    ("all_sizes", 30), ("worker_has_it", 60), ("refilled", 0),
]

#: Of which each says what another one says of a further way to get at a batch.
WHOLE = frozenset("""labels_kept properties dropped forkserver interleaved nested zeroed worker_keeps
    sent_again told_others sizes file_system few_files""".split())

def environment(**more):
    return support.plain_environment(POOL_PACKAGE=PACKAGE, **more)


def victim(on, scenario, **more):
    """Outcome of the scenario without (0) or with (1) the pool."""
    command = [os.environ.get("POOL_PYTHON", PYTHON), VICTIM, str(on), scenario]
    # The pool comes after torch, without the library.  Workers that are started anew ask for the main
    # program as Python has begun it; and settings of malloc are read at a start.
    is_warm = not more and scenario not in ("spawned", "forkserver", "faults", "large_faults")
    return (warm if is_warm else support).run(command, environment(**more))


def delivered(outcome):
    found = re.search(r"^~deliveries (\d+)", outcome.output, re.M)
    assert found, outcome.output[-500:]
    return int(found.group(1))


#: What Python's tracker of semaphores says: of those of a spawned worker it hears from two
#: processes, in any order, and now and then it warns, of plain jobs as well.
TRACKER = re.compile(r"^.*resource_tracker.*Warning.*\n(?:  .*\n)*"
                     r"|^Traceback .*\n(?:  .*\n)*?  File .*resource_tracker.*\n(?:  .*\n)*"
                     r"KeyError.*\n", re.MULTILINE)


def without_and_with(scenario):
    """Both outcomes, without what may differ between two plain jobs as well."""
    outcomes = victim(0, scenario), victim(1, scenario)
    for outcome in outcomes:
        outcome.errors = TRACKER.sub("", outcome.errors)
    return outcomes


@pytest.mark.parametrize("scenario, least", [
    support.left_unless(scenario not in WHOLE, scenario, least) for scenario, least in SCENARIOS])
def test_scenario(scenario, least):
    """Equal output, all of it right, and the pool was used."""
    reference, outcome = without_and_with(scenario)
    assert reference.status == 0, reference.errors[-1500:]
    support.equal(reference, outcome, scenario)
    assert "False" not in outcome.output or "False" in reference.output, outcome.output
    assert delivered(reference) == 0
    assert delivered(outcome) >= least, (scenario, delivered(outcome))


@pytest.mark.parametrize("mode", [{}, {"TSSHIM_ALIGN": "7"}, {"TSSHIM_SHARE": "pixels"}])
@pytest.mark.parametrize("scenario, least", [("made", 60), ("steady", 76)])
def test_every_mode_uses_it(mode, scenario, least):
    """A lone job, whose data set makes the batches."""
    reference = victim(0, scenario)
    with support.Group(**mode) as group:
        outcome = support.run([support.torch_python(), VICTIM, "0", scenario], group.environment())
    assert outcome.status == 0, outcome.errors[-1500:]
    assert support.facts(outcome.output) == support.facts(reference.output) != []
    assert delivered(outcome) >= least, delivered(outcome)


def bounded(scenario, least, **more):
    outcome = victim(1, scenario, **more)
    assert outcome.status == 0, outcome.errors[-1500:]
    assert support.facts(outcome.output) == ["True True"], outcome.output
    assert delivered(outcome) >= least, outcome.output


def test_files_and_memory_are_bounded():
    epochs = 1000 if support.LONG else 50
    bounded("bounded", 5 * epochs, POOL_EPOCHS=str(epochs))


@support.whole
def test_files_and_memory_are_bounded_with_spawn():
    bounded("spawn_bounded", 30)


def test_many_labels_leave_room_for_images():
    test_scenario("many_labels", 30)
    images = re.search(r"^~images (\d+)", victim(1, "many_labels").output, re.M)
    assert int(images.group(1)) >= 2, images.group(0)


def faults(on, which="faults", **more):
    outcome = victim(on, which, **more)
    assert outcome.status == 0, outcome.errors[-1500:]
    return int(re.search(r"^~faults (\d+)", outcome.output, re.M).group(1))


@support.whole
def test_freed_memory_of_a_worker_stays_with_it():
    for which in ("faults", "large_faults"):
        plain, pooled = faults(0, which), faults(1, which)
        assert plain >= 80 * 6, (which, plain)  # else there is nothing to be seen
        assert pooled * 10 <= plain, (which, plain, pooled)


@support.whole
def test_what_the_user_says_of_freed_memory_holds():
    told = {"MALLOC_TRIM_THRESHOLD_": "131072"}
    plain, pooled = faults(0, **told), faults(1, **told)
    assert plain >= 80 * 6, plain
    assert pooled * 2 >= plain, (plain, pooled)


def test_nothing_lies_in_dev_shm():
    before = set(glob.glob("/dev/shm/*"))
    victim(1, "broken_off")
    left = {path for path in set(glob.glob("/dev/shm/*")) - before if "torch_" in path}
    # What other tests have there at this moment has its name but for a moment.
    support.wait_until(lambda: not any(map(os.path.exists, left)), "all of %s go" % left)


def test_labels_arrive_though_dev_shm_is_full():
    """The feeding thread would drop a batch whose labels have no room there, and the trainer wait for ever."""
    if os.getuid() != 0 or support.run(["unshare", "--mount", "true"]).status != 0:
        raise support.Skip("namespaces", "needs root and unshare")
    command = ["unshare", "--mount", "--propagation", "private", "sh", "-c",
               'mount -t tmpfs -o size=8m none /dev/shm && exec "$@"', "sh", PYTHON, VICTIM, "1", "full"]
    outcome = support.run(command, environment(FILL="1"))
    assert "No space left" in outcome.output, outcome.output
    support.equal(victim(0, "full"), outcome, "full")


def test_workers_of_a_killed_trainer_end():
    program = ("import sys, time; sys.argv = ['x', '1']; sys.path.insert(0, %r)\n"
               "from pool_victim import *\n"
               "it = iter(loader()); next(it), next(it)\n"
               "print(*[w.pid for w in it._workers], flush=True); time.sleep(600)") % HERE
    trainer = subprocess.Popen([PYTHON, "-c", program], env=environment(),
                               stdout=subprocess.PIPE, text=True)
    workers = [int(word) for word in trainer.stdout.readline().split()]
    assert len(workers) == 2
    # Each has sent a batch, so that it knows its parent: who asks later for it takes init for it.
    trainer.send_signal(signal.SIGKILL)
    trainer.wait()
    trainer.stdout.close()
    try:
        # torch's workers look every 5 s
        support.wait_until(lambda: not any(os.path.exists("/proc/%d" % pid) for pid in workers),
                           "the workers end")
    finally:
        for pid in workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
