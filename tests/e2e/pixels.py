# SPDX-License-Identifier: MIT
"""The same pixels, errors and positions with and without the library, for every consumer."""

import mmap
import os
import shutil
import tempfile

import pytest

import consumer
import support
from support import HERE, PYTHON, Group, run, same_pictures, victim

SOURCES = ("mem", "stdio", "suspend", "suspend=4096", "suspend=700", "pull=4096", "pull=777",
           "pull=1048576", "seek=4096", "seek=65536")
SETTINGS = (
    [], ["--rows", "7"], ["--rows", "64", "--colour", "rgbx"], ["--colour", "gray"],
    ["--colour", "bgr", "--scale", "1/2"], ["--scale", "1/8"], ["--scale", "3/8"],
    ["--dct", "ifast", "--no-fancy"], ["--dct", "float"], ["--no-smoothing"],
    ["--colour", "rgb565"], ["--trace", "3"], ["--destroy-early"], ["--colour", "ycc"],
    ["--colour", "cmyk"], ["--colour", "gray", "--scale", "1/2"],
)
MODES = ("partial", "abort", "early_finish", "too_many_rows", "crop", "skip", "coefficients",
         "buffered", "raw", "quantize", "two_images", "savemarkers", "progress",
         "header_again")


#: What runs without --whole: of sources of a kind the one with the most edges, of consumers the one
#: that most programs use.
ALWAYS = ("suspend=700", "pull=777", "seek=4096", "pillow")


known = {}


def plain(command):
    """The outcome of @command without us, run once."""
    if tuple(command) not in known:
        known[tuple(command)] = run(command)
    return known[tuple(command)]


def compare(command, files, what, must_share, verify="0", order=("given", "reversed")):
    """Plain once; then two jobs at the same time in different order, two more afterwards.
    @command(order, files) makes the command line."""
    reference = plain(command("given", files))
    with Group(TSSHIM_VERIFY=verify) as group:
        group.keep()
        jobs = [support.start(command(o, files), group.environment()) for o in order]
        outcomes = [support.finish(job) for job in jobs]
        # Two more, one after the other: the first publishes what the second may take.
        outcomes += [run(command("given", files), group.environment()) for _ in range(2)]
        for number, outcome in enumerate(outcomes):
            same_pictures(reference, outcome, "%s, job %d" % (what, number))
        # With every hit recomputed nothing is left to count as shared.
        counts = group.statistics()
        shared = group.pixels("shared") if verify == "0" else counts["verified"]
        assert shared > 0 or not must_share, (what, "nothing was shared", counts)
        assert counts["mismatched"] == 0, (what, counts)
        group.release()
        group.assert_clean(after_kill=True)


def decode_command(*options):
    """Command line of the C victim."""
    return lambda order, files: [victim("decode"), "--order", order, "--repeat", "2", *options,
                                 *files]


def consumer_command(kind, python=PYTHON):
    """Command line of the Python consumer."""
    return lambda order, files: [python, os.path.join(HERE, "consumer.py"), kind, order, *files]


def test_the_comparison_notices_a_difference(directory):
    """One changed byte, one missing picture, another exit status: each must be noticed."""
    files = support.pictures("s_4")
    reference = run(decode_command()("given", files))
    copies = [shutil.copy(path, directory) for path in files]
    data, middle = support.read(copies[0], "rb"), os.path.getsize(copies[0]) // 2
    support.overwrite(copies[0], middle, bytes([data[middle] ^ 0x15]))
    for wrong in (copies, copies[1:], copies + ["/nonexistent"]):
        with pytest.raises(AssertionError):
            same_pictures(reference, run(decode_command()("given", wrong)), "self-check")


@pytest.mark.parametrize("source, verify", [support.left_unless(
    source in ("mem", "stdio") or verify == "0" and source in ALWAYS, source, verify)
    for source in SOURCES for verify in ("0", "100")])
def test_source(source, verify):
    """Each source manager over the whole corpus, with and without recomputing every hit."""
    # A seeking source hides what it skips; such a stream need not be shared.
    compare(decode_command("--source", source), support.pictures(), source, not source.startswith("seek"), verify)


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: "_".join(setting).replace("--", "") or "default")
@pytest.mark.parametrize("source", ["mem", "stdio"])
def test_setting(setting, source):
    """Each setting of the decoder over the clean pictures, in memory and from a FILE."""
    # These pass: traces would be missing, and rows of RGB565 have another size than said.
    must = not set(setting) & {"--trace", "--destroy-early", "rgb565"}
    compare(decode_command("--source", source, *setting), usable(setting), "%s %s" % (setting, source), must)


def usable(setting):
    """A few pictures, in which every kind of sampling and coding occurs."""
    return [path for path in support.pictures("s_") if os.path.getsize(path) < 300000]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("source", ["mem", "stdio", "pull=3000"])
def test_mode(mode, source):
    """The less usual calls, after and while ordinary jobs fill the ring with the same: three such
    jobs between two usual ones, all equal to themselves without us."""
    files = usable(None)[:12] + support.pictures("s_mpo") + support.pictures("s_prog")[:1]
    unusual = [victim("access"), mode, source, *files]
    usual = decode_command("--source", source)("given", files)
    references = plain(unusual), plain(usual)
    with Group(TSSHIM_VERIFY="0") as group:
        group.keep()
        # Two at once: one must ask for what another living job has done alone.
        for job in [support.start(usual, group.environment()) for _ in range(2)]:
            same_pictures(references[True], support.finish(job), mode)
        for command in (usual, unusual, usual, usual, unusual, unusual):
            outcome = run(command, group.environment())
            same_pictures(references[command is usual], outcome, mode)
        assert group.pixels("shared") > 0, "the usual jobs shared nothing"


@pytest.mark.parametrize("kind", [support.left_unless(kind.__name__ in ALWAYS, kind.__name__) for kind in consumer.KINDS])
def test_consumer(kind, python=PYTHON):
    """Each Python consumer over the whole corpus; says which module is missing where one is."""
    module = kind.split("_")[0] if kind.startswith(("torchvision", "cv2")) else "PIL"
    if not support.has_modules(python, "numpy", module) and python == PYTHON:
        raise support.Skip(module, "not installed for " + python)
    compare(consumer_command(kind, python), support.pictures(), kind, True)


@pytest.mark.parametrize("kind", ["pillow", support.left_unless(False, "pillow_draft")])
def test_pillow_wheel(kind):
    """The current one from PyPI."""
    test_consumer(kind, support.installed("wheel", "WHEEL_PYTHON"))


def test_turbojpeg():
    """TurboJPEG's own calls."""
    files = usable(None) + support.pictures("cut_base")
    reference = run([victim("turbo"), *files])
    with Group(TSSHIM_VERIFY="0") as group:
        for _ in range(3):
            same_pictures(reference, run([victim("turbo"), *files], group.environment()), "tj")


def test_encoders_are_left_alone(group):
    """jpeg_abort and jpeg_destroy are shared by both kinds of objects."""
    command = [victim("compress"), "30"]
    support.equal(run(command), run(command, group.environment()), "compress")


def rename(path, data):
    support.write(path + ".new", data)
    os.utime(path + ".new", (1, 1))
    os.rename(path + ".new", path)


def store(path, data):
    """By a memory map."""
    if not os.path.exists(path):
        support.write(path, data)
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), len(data)) as memory:
        memory[:] = data
    os.utime(path, (1, 1))


@pytest.mark.parametrize("how", [support.write, rename, store])
def test_rewritten(how):
    """A file whose content is replaced between two decodes, by @how(path, data)."""
    old, new = (open(path, "rb").read() for path in (
        support.pictures("s_prefix_a")[0], support.pictures("s_prefix_c")[0]))
    assert len(old) == len(new) and old[:65536] == new[:65536] and old != new
    with tempfile.TemporaryDirectory() as directory, Group(TSSHIM_VERIFY="0") as group:
        group.keep()
        path = os.path.join(directory, "picture.jpg")
        for source in ("mem", "stdio", "suspend"):
            command = decode_command("--source", source)("given", [path])
            for turn in range(6):
                how(path, (old, new)[turn % 2])
                reference = run(command)
                for job in [support.start(command, group.environment()) for _ in range(2)]:
                    same_pictures(reference, support.finish(job), source)
        assert group.pixels("shared") > 0, "nothing was shared"


def test_scopes_of_plugins():
    """A libjpeg that only a plug-in knows: by dlopen local, global and with deep binding."""
    files = usable(None)[:6]
    for how in ("local", "global", "deepbind"):
        command = [victim("plugger"), how, victim("plugin"), *files]
        reference = run(command)
        assert reference.status == 0, reference.errors
        with Group() as group:
            for _ in range(3):
                support.equal(reference, run(command, group.environment()), how)
