# SPDX-License-Identifier: MIT
"""
Errors in every call of the driver that the library makes, while jobs share: the program's own
calls say what they say without us, and its runtime's last error is the program's.
"""

import concurrent.futures
import os
import re

import support
from copies_common import DRIVER, JOBS, Gpu, Until
from copies_scenes import at_once
from support import HERE, finish, run

RESULTS = os.path.join(os.path.dirname(JOBS), "results")

# Errors of one call, and errors that stay in the context whatever is called.
CODES = (2, 1, 999, 4, 400, 801)
STAYING = (700, 719)

# Of each job when it has shared, or met the error; and some of them.
STEPS, LATER = 40, 30
WORDS = [str(STEPS), "pause=1000"]

# What makes us make these calls; all others are made in any case.
VERIFIES = {"TSSHIM_VERIFY": "100"}
SETTINGS = dict.fromkeys(("cuMemcpyDtoHAsync_v2", "cuMemcpyDtoHAsync_v2_ptsz"), VERIFIES)
RESETS = ["reset=%d" % LATER]
ENDS = dict.fromkeys(("cuMemFree_v2", "cuEventDestroy_v2", "cuIpcCloseMemHandle",
                      "cuDevicePrimaryCtxRelease_v2"), RESETS)
# The program's first calls of these are its own.
OWN = {"cuDevicePrimaryCtxRetain": 1, "cuMemAlloc_v2": 1}
# A copy that we take out of a batch, of which the program's have three.
OUT = {"batch_of_one"}
# Only the pool's memory is registered (copies_pinned.py), only the way to other GPUs is tried
# with these (copies_far.py), and only a verdict names a version (doctor_gpu.py).
ELSEWHERE = {"cuDriverGetVersion", "cuMemHostRegister_v2", "cuMemHostUnregister", "cuStreamCreate",
             "cuStreamDestroy_v2", "cuMemHostAlloc", "cuMemFreeHost"}


def calls():
    """All that we call: what hooks/cuda/cuda_driver.h says, and what we stand in front of and use."""
    with open(os.path.join(HERE, "..", "..", "hooks", "cuda", "cuda_driver.h"), encoding="utf-8") as file:
        used = re.search(r"#define TS_CUDA_USED\(X\)(.*?)\n\n", file.read(), re.S).group(1)
    found = set(re.findall(r"X\((cu\w+),", used)) - ELSEWHERE
    assert len(found) > 25, found
    return sorted(found | set(SETTINGS) | set(ENDS) | set(OWN) | OUT)


def without(words, **driver):
    return run([RESULTS, *words], support.plain_environment(LD_LIBRARY_PATH=DRIVER, **driver))


def jobs_until(gpu, holds, commands, env=({},)):
    """Outcomes of jobs at once, which bring others until @holds(counters of the driver)."""
    then = Until()
    return then.end(at_once(gpu, commands, env, [then.word], then.fds), gpu, holds, finish)


def with_us(words, holds, more=None, **driver):
    """Outcomes of two jobs that share, and what reached the driver."""
    with Gpu(**driver, **(more or {})) as gpu:
        return jobs_until(gpu, holds, [[RESULTS, *words]] * 2), gpu.safe()


def differing(wanted, outcome):
    """What the program says otherwise."""
    lines = [o.output.splitlines() for o in (wanted, outcome)]
    return [(outcome.status, outcome.errors, len(lines[0]), len(lines[1]))] + [
        pair for pair in zip(*lines) if pair[0] != pair[1]]


def cases(call):
    """Which of the calls fail, and how; all codes are met, and the first one by each call."""
    first = OWN.get(call, 0)
    number = sum(map(ord, call))
    yield from ((nth + first, CODES[(number + nth) % len(CODES)]) for nth in (1, 2, 7))
    if not first:
        yield 0, CODES[(number + 3) % len(CODES)]


def calls_and_cases():
    return [(call, "%s:%d:%d" % (call, *case)) for call in calls() for case in cases(call)]


def shares(now):
    return now.get("d2d_copies", 0) > 0


def fails(call, failure):
    """What two jobs say when this fails, and how often it did."""
    def met(now):
        """The first one is sooner or later, if not at an end; others may never be made."""
        surely = call not in ENDS and int(failure.split(":")[1]) in (0, OWN.get(call, 0) + 1)
        return now.get("injected", 0) > 0 or not surely and shares(now)

    done, counters = with_us(WORDS + ENDS.get(call, []), met, SETTINGS.get(call),
                             FAKECUDA_FAIL=failure, FAKECUDA_JITTER_US="100")
    return call, failure, done, counters["injected"]


def side_by_side(function, arguments):
    """Most of the time they wait."""
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        yield from pool.map(function, *zip(*arguments))


def test_no_call_of_ours_is_seen():
    plain = {(): without(WORDS), tuple(RESETS): without(WORDS + RESETS)}
    for outcome in plain.values():
        assert outcome.status == 0 and outcome.output.count(": 0 0 0 0, last 0 0, arrived") == STEPS
    injected = dict.fromkeys(calls(), 0)
    for call, failure, done, times in side_by_side(fails, calls_and_cases()):
        injected[call] += times
        wanted = plain[tuple(ENDS.get(call, []))]
        for outcome in done:
            assert wanted == outcome, (failure, differing(wanted, outcome))
    assert all(injected.values()), injected


def stays(code, words):
    """A job whose kernel broke its context, another one that goes on, and what both say alone."""
    failure = {"FAKECUDA_FAIL": "cuMemsetD8_v2:%d:%d" % (LATER - 8, code)}
    with Gpu() as gpu:
        done = jobs_until(gpu, shares, [[RESULTS, *WORDS, *words], [RESULTS, *WORDS]],
                          [failure, {}])
        return (code, words, done, [without(WORDS + words, **failure), without(WORDS)],
                gpu.safe()["d2d_copies"])


def test_errors_that_stay():
    """The program's own, while it shares: all its calls say it, and a reset ends it."""
    for code, words, done, wanted, within in side_by_side(
            stays, [(code, words) for code in STAYING for words in ([], RESETS)]):
        assert within > 0, (code, words)
        for before, after in zip(wanted, done):
            assert before == after, (code, words, differing(before, after))
        count = wanted[0].output.count("%d %d %d %d, last" % ((code,) * 4))
        assert count == (9 if words else STEPS - LATER + 9), (code, wanted[0].output)


def test_errors_that_stay_met_by_us():
    """As if a kernel had gone wrong just then: from some call on all say it, as without us."""
    some = [call for call in calls() if call not in ENDS]
    arguments = [(call, "%s:%d:%d" % (call, OWN.get(call, 0) + 1, STAYING[number % 2]))
                 for number, call in enumerate(some)]
    for call, failure, done, times in side_by_side(fails, arguments):
        assert times > 0, failure
        code = failure.rpartition(":")[2]
        for outcome in done:
            rows = re.findall(r"^\d+: (\d+) (\d+) (\d+) (\d+), last (\d+) (\d+), (.*)$",
                              outcome.output, re.M)
            assert outcome.status == 0 and len(rows) == STEPS, (failure, outcome.output)
            # The copy, the wait, and the copy back; then the runtime's error before and after.
            results = [result for row in rows for result in row[:4]]
            good = results.index(code) if code in results else len(results)
            assert set(results[:good]) <= {"0"} and set(results[good:]) <= {code}, (
                failure, outcome.output)
            for step, row in enumerate(rows):
                # The runtime does not see the batches, which are the driver's own call.
                seen = row[1] if step % 6 < 4 else "0"
                assert row[4] == seen and row[5] == (row[3] if row[3] != "0" else seen), (
                    failure, row)
                assert row[:4] != ("0",) * 4 or row[6] == "arrived", (failure, row)
