# SPDX-License-Identifier: MIT
"""
Decoded pictures between nodes (--across nodes): aligned jobs whose samples cannot be shared as a
whole decode each picture once on all nodes, and get what they get without.
"""

import contextlib
import os
import signal
import subprocess

import support
from across_common import PATIENT, Run, between, servers, site, without

ITEMS = 96
PICTURES = ("--pictures", "--items", ITEMS)


def decodes(run):
    """How many were made on all nodes; each of the others was taken."""
    made, taken = run.count("produced", "pixels"), run.count("shared", "pixels")
    assert run.count("shared") == 0 and run.reason("torch_dataset") > 0  # samples are not shared
    assert made + taken == run.given(), (made, taken, run.given(), run.told())
    assert all(statistics["mismatched"] == 0 for statistics in run.statistics)
    print("# decoded %d of %d pictures, took %d" % (made, ITEMS, taken), flush=True)
    return made


def test_two_nodes_decode_each_picture_once():
    with site(2) as some:
        both = Run(some, *PICTURES, **PATIENT)
        both.expect(without(some, *PICTURES))
        assert decodes(both) == ITEMS, both.told()
        assert both.reason("across_alone") == 0


def test_what_came_is_verified():
    """All of it: it is decoded again, and that is used."""
    with site(2) as some:
        both = Run(some, *PICTURES, **PATIENT, TSSHIM_VERIFY="100")
        both.expect(without(some, *PICTURES))
        assert decodes(both) == both.given()
        assert both.reason("verify") == both.given() - ITEMS, (both.reason("verify"), both.told())


@support.whole
def test_a_server_that_is_stopped_goes_on_or_is_killed_changes_nothing():
    with site(2) as some:
        words = (*PICTURES, "--epochs", 3)

        def to_server(number):
            return lambda run: [os.kill(process, number) for process in servers(some, 1)]

        run = Run(some, *words, "--scenes", meanwhile=between(
            *map(to_server, (signal.SIGSTOP, signal.SIGCONT, signal.SIGKILL))))
        run.expect(without(some, *words))
        assert decodes(run) >= ITEMS
        assert run.reason("across_alone") > 0  # what was on its way


@support.whole
def test_pictures_of_samples_that_are_shared_are_a_part_of_them():
    with site(2) as some:
        words = (*PICTURES, "--named")
        both = Run(some, *words, **PATIENT)
        both.expect(without(some, *words))
        both.expect_once()
        assert both.count("produced", "pixels") == both.count("produced")
        assert both.count("shared", "pixels") == 0


HOLDER = r"""
import io, sys
from PIL import Image
data = io.BytesIO()
Image.new("RGB", (500, 375)).save(data, "JPEG")
Image.open(data).load()
print("ready", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def held(some, env):
    """Meanwhile there is a helper on each node."""
    with contextlib.ExitStack() as stack:
        holders = [stack.enter_context(subprocess.Popen(
            some.nodes.inside(number, support.torch_python(), "-c", HOLDER), env=env, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)) for number in range(some.count)]
        for holder in holders:
            assert holder.stdout.readline() == "ready\n"
        yield


def pictures_of_c(name, *options):
    """Programs that know nothing of samples."""
    files = [path for path in support.pictures("s_") if os.path.getsize(path) < 300000]
    command = [support.victim(name), *options, *files]
    plain = support.run(command)
    with site(2) as some:
        shared = {}
        for across in ("off", "nodes"):
            group = some.group()
            env = support.plain_environment(**{
                **PATIENT, "LD_PRELOAD": support.TEST_LIBRARY, "TSSHIM_GROUP": group, "TSSHIM_ALIGN": "7",
                "TSSHIM_RING": "256M", "TSSHIM_CLUSTER": some.cluster, "TSSHIM_ACROSS": across,
                "TSSHIM_VERIFY": "0"})
            with held(some, env):
                for outcome in some.nodes.run_all(command, env):
                    support.same_pictures(plain, outcome, across)
                rows = [row.get("kinds", row)["pixels"] for number in range(2)
                        for row in some.stats(number, group)["datasets"]]
            shared[across] = sum(row["shared"] for row in rows)
        print("# of %d pictures on two nodes, shared %s" % (len(files), shared), flush=True)
        assert shared["off"] == 0 and shared["nodes"] >= len(files) // 2, shared


def test_turbojpeg():
    pictures_of_c("turbo")


def test_programs_that_feed_pieces():
    pictures_of_c("decode", "--source", "suspend=4096")
