# SPDX-License-Identifier: MIT
"""
Nothing of ours raises into a job: what stands in the place of a library's function falls back to
that function, which is said once (docs/rooms/torch.md).
"""

import glob
import json
import os

import support
from support import HERE, Group, run

JOB = os.path.join(HERE, "wrappers_job.py")
WARNINGS = os.path.join(HERE, "wrappers_warnings.py")
STREAMS = os.path.join(HERE, "wrappers_streams.py")

# Where ours is entered from a library's function, or before it, by mode.
ALIGNED = (
    "sharing.order.align:begin", "sharing.order.align:Plan.begin", "sharing.order.align:Plan.next_index",
    "sharing.order.align:Plan.deliver", "sharing.order.align:Plan.end", "sharing.order.align:Plan.work",
    "sharing.item.generators:save", "sharing.order.orders:draw_as_before", "sharing.naming.aligned_names:prepare",
    "sharing.batch.aligned:expect_workers", "sharing.batch.aligned:run", "sharing.batch.aligned:Drawn.seed",
    "sharing.batch.ahead:QueueAhead.__init__", "sharing.naming.loaders:begin", "sharing.naming.loaders:note",
    "sharing.naming.loaders:meet", "sharing.batch.collate:Batch.finish",
    "sharing.stream.iterables:Plan.next_index", "sharing.stream.streams:stream_of", "sharing.stream.streams:run",
    "sharing.batch.lone:of", "sharing.item.private:Private.seed", "sharing.item.private:Private.seed#9",
    "sharing.stream.streams:Stream.leave", "sharing.stream.streams:Stream.leave#3", "sharing.stream.streams:Stream.idle",
    "sharing.batch.collate:Batch.finish#15",
)
EXACT = ("sharing.batch.exact:expect_workers", "sharing.batch.exact:run", "sharing.naming.loaders:begin",
         "sharing.batch.collate:Batch.finish", "sharing.naming.hints:expect")
FREE = ("sharing.order.free:begin", "sharing.order.free:Epoch.work", "sharing.order.free:Epoch.deliver")

# What is said of the loaders of wrappers_warnings.py, and of no other loader.
NOTES = {"aligned data, seed 7": 1,
         "not aligned: loader over IterableWrapperIterDataPipe: a DataPipe has seeds of its own": 2,
         "not aligned: loader over": 2, "not recorded: a loader that delivers in any order": 1}


def go_on(points, **settings):
    with Group(**settings) as group:
        done = run([support.torch_python(), JOB, *points], group.environment())
    assert done.status == 0, done.errors[-2000:]
    lines = [json.loads(line) for line in done.output.splitlines()]
    assert [point for point, _, _ in lines] == list(points)
    for point, found, said in lines:
        assert found == [], (point, found, said)
        assert said.count("an error of tsshim's own") == 1 and "injected" in said, (point, said)


def test_errors_of_ours_in_aligned_jobs():
    go_on(ALIGNED if support.WHOLE else ALIGNED[::3], TSSHIM_ALIGN="7")


def test_errors_of_ours_in_default_mode():
    go_on(EXACT)


@support.whole
def test_errors_of_ours_in_free_order():
    go_on(FREE, TSSHIM_ALIGN="7", TSSHIM_ORDER="free")


def test_all_is_in_use_with_each_torch():
    """Where a release has renamed something, ours stands aside without a word."""
    for python in support.PYTHON, support.pypi_python():
        with Group(TSSHIM_ALIGN="7") as group:
            done = run([python, JOB], group.environment())
        assert done.status == 0, done.errors
        uses = json.loads(done.output)
        assert uses and all(uses.values()), (python, uses)


def test_releases_of_webdataset():
    """Two old ones and a new one: of each, jobs with other seeds are given the same."""
    readers, place = (os.environ.get("TSSHIM_TEST_" + name, "") for name in ("READERS", "STREAMS"))
    found = glob.glob(os.path.join(os.path.dirname(readers), "..", "lib", "python3*", "site-packages"))
    releases = sorted(glob.glob(os.path.join(place, "[0-9]*")))
    if not found or len(releases) < 2:
        raise support.Skip("readers", "webdataset is not installed (scripts/deps test)")
    for path in (*releases, ""):
        # Without a ring, from which the second could take what the first has made.
        with Group(TSSHIM_ALIGN="7", TSSHIM_RING="0") as group:
            done = run([support.torch_python(), STREAMS, "1", "2"], group.environment(
                PYTHONPATH=os.pathsep.join(filter(None, (path, found[0])))))
        assert done.status == 0, (path, done.errors[-2000:])
        assert "an error of tsshim's own" not in done.errors, done.errors
        given = [json.loads(line) for line in done.output.splitlines()]
        assert given[0] == given[1], path
        assert sorted(given[0]) == list(range(80)) and given[0] != sorted(given[0]), (path, given[0])


RELEASES = """
import sys, types, torch.utils.data
from tsshim_torch.sharing.order import fastai, torchdata
for name in (torchdata._MODULE, fastai._MODULE):
    sys.modules[name] = types.ModuleType(name)
class Other:
    dataset = []
print(torchdata.is_one(object()))
fastai.align(type("Fake", (), {"d": Other()})(), None)
"""


def test_releases_that_lack_the_names_that_we_know_them_by():
    with Group(TSSHIM_ALIGN="7") as group:
        done = run([support.torch_python(), "-c", RELEASES], group.environment())
    assert (done.status, done.output) == (0, "False\n"), done.errors[-2000:]
    assert done.errors == "tsshim: order not aligned: loader over list: Other has an order of its own\n", \
        done.errors


@support.whole
def test_torchs_warnings_name_the_line_that_they_name_without_us(directory):
    python = support.pypi_python()
    plain = run([python, WARNINGS], support.plain_environment())
    assert plain.status == 0, plain.errors
    places = json.loads(plain.output)
    assert any(os.path.basename(WARNINGS) == name for name, _, _ in places), places
    for settings in ({}, {"TSSHIM_ALIGN": "7", "TSSHIM_ORDER": "free", "TSSHIM_RECORD": directory + "/given"}):
        with Group(**settings) as group:
            done = run([python, WARNINGS], group.environment())
        assert done.status == 0, done.errors
        assert json.loads(done.output) == places, (settings, done.output)
        for text, times in NOTES.items():
            assert done.errors.count(text) == (times if settings else 0), (text, settings, done.errors)
