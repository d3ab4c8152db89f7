# SPDX-License-Identifier: MIT
"""
Jobs that share copies where there is more than one GPU, graphs, or a link that is fast enough:
programs of tests/cuda that say the same without us.
"""

import contextlib
import os
import re

import support
from copies_common import DRIVER, JOBS, Gpu, Until, until
from support import equal, finish, run, start, victim

PROGRAMS = os.path.dirname(JOBS)
BATCHES, DEVICES, REPLAY = (os.path.join(PROGRAMS, name) for name in ("batches", "devices", "replay"))


def at_once(gpu, commands, env=({},), words=(), pass_fds=()):
    """Start these jobs at once; env: what each of them is told besides, or all."""
    gate, opener = os.pipe()
    ready, told = os.pipe()
    words = ["gate=%d" % gate, "ready=%d" % told, *words]
    env = list(env) * (1 if len(env) > 1 else len(commands))
    jobs = [start([*command, *words], gpu.group.environment(**{**gpu.more, **more}),
                  pass_fds=(gate, told, *pass_fds)) for command, more in zip(commands, env)]
    os.close(told)
    for _ in jobs:
        os.read(ready, 1)
    for end in (opener, gate, ready):
        os.close(end)
    return jobs


def together(gpu, commands, holds, env=({},)):
    """The same, and they go on until @holds(counters of the driver).  How many batches they have
    brought."""
    then = Until()
    return then.end(at_once(gpu, commands, env, [then.word], then.fds), gpu, holds)


def in_turn(gpu, command, holds=lambda now: now.get("d2d_copies", 0) > 0, ahead=4):
    """Two that bring the same, of which the first is ahead of the second by some steps.  Until
    @holds(counters of the driver) they have half a second for each, as the ring is made beside
    them."""
    there, back, again = os.pipe(), os.pipe(), os.pipe()
    os.write(again[1], bytes(ahead))
    env, jobs = gpu.group.environment(**gpu.more), []
    for before, after in ((again[0], there[1]), (there[0], back[1])):
        words = ["before=%d" % before, "after=%d" % after]
        jobs.append(start([*command, *words], env, pass_fds=(before, after)))
    for end in (*there, back[1], again[0]):
        os.close(end)
    while os.read(back[0], 1):
        until(lambda: holds(gpu.counters_now()), .5)
        with contextlib.suppress(BrokenPipeError):  # it has had its last step
            os.write(again[1], b"x")
    for end in (back[0], again[1]):
        os.close(end)
    return jobs


def plain(command, **settings):
    """What it says without us."""
    done = run(command, support.plain_environment(LD_LIBRARY_PATH=DRIVER, **settings))
    assert done.status == 0, (command, done.output, done.errors)
    return done


# ---- several GPUs ----------------------------------------------------------------------------

def test_two_gpus_in_one_process():
    """Each has a ring of its own; what goes to the one that is not current is left alone."""
    steps = 100
    for peers in ("all", "none"):
        machine = {"FAKECUDA_DEVICES": "2", "FAKECUDA_PEERS": peers}
        wanted = plain([DEVICES, str(steps)], **machine)
        with Gpu(**machine) as gpu:
            for job in in_turn(gpu, [DEVICES, str(steps)],
                               lambda now: now.get("ipc_opens", 0) >= 2):
                equal(wanted, finish(job), peers)
            counters, passed = gpu.safe(), gpu.group.statistics()["passed"]
            assert min(counters["ipc_exports"], counters["ipc_opens"]) >= 2, counters
            assert counters["peer_copies"] == 0, counters
            assert passed["copy_state"] == 2 * 2 * (steps // 7), passed
            assert gpu.taken() > 0, counters


def apart(devices, holds, **machine):
    """Two jobs that bring the same, one to each of these GPUs: what they took, rings mapped, and
    copies within a GPU."""
    with Gpu(**machine) as gpu:
        batches = together(gpu, [[JOBS, "1", str(i), "50", "pace=5000"] for i in (1, 2)], holds,
                           [{"CUDA_VISIBLE_DEVICES": device} for device in devices])
        counters, found = gpu.safe(), gpu.taken()
        assert gpu.brought(counters) + found == batches, (counters, found)
        assert counters["peer_copies"] == 0, counters
        return found, counters["ipc_opens"], counters["d2d_copies"]


def test_other_gpus_and_slices_stay_apart():
    """Where they do not reach each other nobody takes from another GPU, or part of one, nor makes a
    ring there that nobody would take from.  (Where they do: copies_far.py.)"""
    for more in ({"FAKECUDA_PEERS": "none"}, {"FAKECUDA_MIG": "1,2"}):
        machine = {"FAKECUDA_DEVICES": "2", **more}
        assert apart("01", lambda now: now.get("h2d_copies", 0) > 100, **machine) == (0, 0, 0)
        # The same slice is the same GPU.
        found = apart("11", lambda now: now.get("d2d_copies", 0) > 1, **machine)
        assert found[0] > 0 and found[1] > 0, found


def test_one_gpu_by_two_numbers():
    """What a program is shown is no name of a GPU: the second of two, and the only one."""
    command = [victim("trainer-dlsym"), "--bytes", "300001", "--count", "60", "--delay-us", "1500"]
    wanted = plain(command)
    for number in (0, 1):
        with Gpu(FAKECUDA_DEVICES="2", FAKECUDA_PEERS="none") as gpu:
            what, least = ("ipc_opens", 0) if number == 1 else ("h2d_copies", 200)
            for outcome in gpu.trainers_until(
                    lambda now: now.get(what, 0) > least,
                    [[*command, "--device", str(number)], command],
                    [{}, {"CUDA_VISIBLE_DEVICES": "1"}]):
                equal(wanted, outcome, number)
            counters = gpu.safe()
            assert (counters["ipc_opens"] > 0) == (number == 1), (number, counters)


# ---- graphs ----------------------------------------------------------------------------------

def test_graphs_are_captured_and_replayed_while_sharing():
    steps = 84
    wanted = plain([REPLAY, str(steps)])
    assert "did not" not in wanted.output and wanted.output.count("capture") == 14 and "900" in wanted.output, wanted.output

    with Gpu() as gpu:
        for job in in_turn(gpu, [REPLAY, str(steps)]):
            equal(wanted, finish(job), "replay")
        counters = gpu.safe()
        # In two parts, those that the mode let be captured; one launch a step of these.
        good = [line for line in wanted.output.splitlines() if re.search(r"capture .*: 0 0 0 0 0$", line)]
        assert counters["h2d_captured"] >= 2 * 2 * len(good) > 0, counters
        assert counters["graph_launches"] > 2 * 6 * (len(good) - 1), counters
        assert gpu.taken() > 0, counters


# ---- batches ---------------------------------------------------------------------------------

def test_batches_are_shared_in_part():
    """Of each what can be; the driver has the rest, and says which copy of all is wrong."""
    steps = 120
    for late in "01":
        wanted = plain([BATCHES, str(steps)], FAKECUDA_BATCHES_LATE=late)
        said = {step: line for step, line in (line.split(": ", 1) for line in wanted.output.splitlines())}
        assert [said[step] for step in ("3", "7", "11")] == [
            "wrong second: 1, copy 1", "wrong last: 1, copy 3", "empty third: 1, copy 2"], said

        with Gpu(FAKECUDA_BATCHES_LATE=late) as gpu:
            equal(wanted, run([BATCHES, str(steps)], gpu.group.environment(**gpu.more)), late)
            alone = gpu.safe()["h2d_bytes"]
        # Two of a batch that fails are good, and may have been brought when the driver says so.
        large, failing = 300000, 2 * len(re.findall(": wrong (?:second|last): 1", wanted.output))
        assert failing == 2 * 2 * steps // 15, wanted.output

        with Gpu(FAKECUDA_BATCHES_LATE=late) as gpu:
            for job in in_turn(gpu, [BATCHES, str(steps)]):
                equal(wanted, finish(job), late)
            # What is taken out is not brought as well.
            counters, found = gpu.safe(), gpu.taken()
            brought = counters["h2d_bytes"]
            # Each is brought by the call that was asked for, which may promise more.
            assert counters["call.cuMemcpyAsync"] == 0, counters
            assert brought + found * large <= 2 * (alone + failing * large) * 1.01, (
                alone, brought, found, failing)
            assert found > 0, counters


def test_what_the_stream_writes_is_not_read_before():
    """Where the driver may read pageable memory late, and a program relies on it."""
    # Whose streams are idle, or who waits, shares there.
    for words in (["calls=2", "fills=1", "busy=2000"], ["calls=2", "fills=2"],
                  ["calls=1", "fills=2"]):
        with Gpu(FAKECUDA_PAGEABLE_LATE="1") as gpu:
            gpu.run_until(lambda now: now.get("d2d_copies", 0) > 50, 2, *words, "sizes=1",
                          "bytes=262144", "pace=3000")
            gpu.safe()


def test_who_overwrites_what_is_read_late_harms_nobody():
    """There such a program does not know itself what it has; others have what they brought."""
    with Gpu(FAKECUDA_PAGEABLE_LATE="1", FAKECUDA_DELAY_US="500") as gpu:
        job = [JOBS, "1", "1", "1", "calls=2", "sizes=1", "bytes=262144", "pace=5000"]
        together(gpu, [[*job, "blind=1"], [*job, "fills=2", "late=2500"]],
                 lambda now: now.get("d2d_copies", 0) > 50)
        gpu.safe()


# ---- whether it pays: tests/unit/cuda/test_cost.c and bench/gates/gate_cuda.py ------------------------
