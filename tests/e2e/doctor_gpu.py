# SPDX-License-Identifier: MIT
"""`tsrun doctor --gpu`: its verdict on drivers that are right, and on such that are not; and what counts of it for jobs.

The driver is one of software (tests/fakecuda): nothing here says that a GPU would do the same.
"""

import glob
import json
import os
import re
import sys

import pytest

import support
from copies import LARGE, OTHERS, WAYS
from copies_common import DRIVER, Gpu
from support import LIBRARY, TEST_LIBRARY, TSRUN, Group, finish, run, start, wait_until
from tsrun_common import mounted

SOURCE = os.path.dirname(os.path.dirname(support.HERE))
PATIENCE = "600"  # seconds, for machines that do much else: nothing here takes a tenth of it
# Where sharing pays for certain: a copy from the host takes at least so long, whatever else the machine does.
PAYS = {"bandwidth": 500000000}
MODULE = "mount -t tmpfs none /sys/module", "mkdir /sys/module/nvidia", "echo 580.65.06 > /sys/module/nvidia/version"


def settings(directory, **machine):
    """The environment of a machine of the software driver's, and of a user whose state is in @directory."""
    more = {"FAKECUDA_" + name.upper(): str(value) for name, value in machine.items() if name.islower()}
    return {"LD_LIBRARY_PATH": DRIVER, "XDG_STATE_HOME": directory, "TSSHIM_TEST_GPU_SECONDS": PATIENCE, **more,
            **{name: value for name, value in machine.items() if not name.islower()}}


def doctor(directory, *words, prefix=(), **machine):
    """What `tsrun doctor --gpu` says there."""
    return run([*prefix, TSRUN, "doctor", "--gpu", *words], support.plain_environment(**settings(directory, **machine)))


def checked(directory, **machine):
    """(its exit status, the GPUs of its JSON)"""
    done = doctor(directory, "--json", **machine)
    assert done.errors == "", done.errors
    return done.status, json.loads(done.output)["gpus"]


def file_of(directory):
    found, = glob.glob(os.path.join(directory, "tsshim", "gpu@*.verdict"))
    return found


def digest(data):
    value = 0xcbf29ce484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001b3 % 2**64
    return value


def verdict(directory, *rows, head="tsshim-gpu 1"):
    """A file as `tsrun doctor --gpu` writes it, made by hand."""
    path = os.path.join(directory, "tsshim", "gpu@%s.verdict" % os.uname().nodename)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    text = "".join(line + "\n" for line in (head, *rows))
    support.write(path, text + "end %016x\n" % digest(text.encode()), 0o600)
    return path


def row(uuid="46414b45435544412d47505500000000", cuda="13000", driver="software", said="yes"):
    """Of the first GPU of the software driver."""
    return "gpu %s %s %s %s" % (uuid, cuda, driver, said), "say made by hand"


# ---- what it says of a driver -------------------------------------------------------------------


def test_it_asks_for_what_the_library_calls():
    """A function that the library needs and the check does not look for would be missed too late."""
    sys.path.insert(0, os.path.join(SOURCE, "shim", "tsrun", "gpu"))
    from tsshim_gpu.driver import NEEDED, RESOLVED, TAKES  # pylint: disable=import-outside-toplevel
    text = support.read(os.path.join(SOURCE, "hooks", "cuda", "cuda_driver.h"))

    def names(table):
        block = re.search(r"#define %s\(X\)(.*?)\n\n" % table, text, re.DOTALL).group(1)
        return re.findall(r"X\((\w+),", block)
    assert sorted(NEEDED) == sorted(["cuMemAlloc_v2", *names("TS_CUDA_USED"), *names("TS_CUDA_BACK")])
    assert set(RESOLVED) == {name for name in names("TS_CUDA_COPIES") + names("TS_CUDA_ENDS") if "Batch" not in name}
    assert set(TAKES) >= {name for name in names("TS_CUDA_COPIES") if "Batch" not in name}


def test_a_driver_that_is_right(directory):
    """Each check is ok; what is kept is shown by doctor, config and stats, and named as what it is."""
    done = doctor(directory, **PAYS)
    assert done.status == 0 and done.errors == "", (done.output, done.errors)
    lines = done.output.splitlines()
    found = {line.split()[1]: line.split()[0] for line in lines if re.match(r"(ok|no|n/a) ", line)}
    assert found == {**dict.fromkeys(("functions", "context", "copies", "sources", "events", "streams", "sharing", "taker",
                                      "descriptors", "costs", "killed"), "ok"), "peers": "n/a"}, done.output
    path = file_of(directory)
    said = next(line for line in lines if line.startswith("Software stand-in, not a GPU (0) ("))
    assert "a driver made of software, which is no GPU" in said and "right, and it pays: 16384 KiB take" in said, said
    assert lines[-1] == "kept in " + path and os.stat(path).st_mode & 0o777 == 0o600
    text = support.read(path)
    assert text.startswith("tsshim-gpu 1\ngpu 46414b45435544412d47505500000000 13000 software yes\nsay " + said)
    env = support.plain_environment(**settings(directory))
    assert "n/a  20  " + said in run([TSRUN, "doctor"], env).output
    assert re.search(r"copies +auto +default, shared with 0 of 1 GPU\n", run([TSRUN, "config"], env).output)
    with Group() as group:
        assert said in run([TSRUN, "stats", "--group", group.name], env).output


# What is wrong with a driver: its settings, and what the verdict says.
LIARS = {
    "byte": ({"lies": 1}, "copies: 64 MiB of pinned memory by cuM"),
    "event": ({"lies": 2}, "events: an event or a stream was done (0, 600) before the copy in front of it"),
    "late": ({"lies": 3}, "sources: 256 KiB of pageable memory were read after the call had returned"),
    "private": ({"lies": 4}, "sharing: what is written to memory of another process does not get there"),
    "order": ({"lies": 5}, "streams: a copy in a stream that waits for another: byte "),
    "address": ({"lies": 7}, "functions: cuGetProcAddress gives another address for cuMemcpyHtoD_v2"),
    "dies": ({"lies": 8}, "sharing: the process is killed by signal 11"),
    "import": ({"fail": "cuIpcOpenMemHandle_v2:0:801"}, "sharing: cuIpcOpenMemHandle_v2 gives the error 801"),
    "export": ({"no_ipc": 1}, "sharing: in the other process cuIpcGetMemHandle gives the error 801"),
    "tables": ({"host_page_tables": 1}, "context: the GPU reads pageable memory by the page tables of the host"),
    "faults": ({"vanishes": 1, **PAYS}, "killed: copies from memory of a killed process fail: "),
    "garbage": ({"vanishes": 2, **PAYS}, "killed: memory of a process that was killed meanwhile: byte 0"),
    "slow": ({"device_bandwidth": 100000000}, "costs: it does not pay: at no size "),
}


@pytest.mark.parametrize("name", [support.left_unless(
    name in ("byte", "event", "late", "order", "address", "import", "tables"), name) for name in LIARS])
def test_a_driver_that_is_wrong(name, directory):
    machine, why = LIARS[name]
    status, (gpu,) = checked(directory, **machine)
    assert status == 1 and gpu["verdict"] == "no" and gpu["why"].startswith(why), (gpu["why"], gpu["checks"])
    assert " software no\nsay " in support.read(file_of(directory))


@support.whole
def test_a_driver_that_waits_for_its_stream(directory):
    """As a call may that copies from pageable memory; the stream goes on by itself then."""
    _, (gpu,) = checked(directory, staging=0)
    assert {"check": "sources", "state": "ok", "text": "pageable memory is read before the call returns, which waits for its "
            "stream"} in gpu["checks"], gpu["checks"]


@support.whole
def test_a_driver_that_hangs(directory):
    """The check ends in time, and so does all that it started."""
    status, (gpu,) = checked(directory, lies=6, TSSHIM_TEST_GPU_SECONDS="12")
    assert status == 1 and gpu["why"].endswith("it does not end in time"), gpu
    wait_until(lambda: not processes_of(directory), "the end of all processes")


def processes_of(directory):
    """Those that were started for it."""
    found = []
    for path in glob.glob("/proc/[0-9]*/environ"):
        try:
            found += [path] if directory.encode() in support.read(path, "rb") else []
        except OSError:
            pass
    return [path for path in found if path != "/proc/%d/environ" % os.getpid()]


def test_a_check_that_is_killed_leaves_nothing(directory):
    job = start([TSRUN, "doctor", "--gpu"], support.plain_environment(**settings(directory, lies=6)))
    while not job.stdout.readline().startswith(("ok   streams", "no ")):
        pass
    assert len(processes_of(directory)) > 2
    job.kill()
    finish(job)
    wait_until(lambda: not processes_of(directory), "the end of all processes")
    assert not glob.glob(os.path.join(directory, "tsshim", "*"))


@support.whole
def test_several_gpus(directory):
    """Verdicts on GPUs that are not visible now stay, with the same driver."""
    status, gpus = checked(directory, devices=2, **PAYS)
    assert status == 0 and [gpu["verdict"] for gpu in gpus] == ["yes", "yes"], gpus
    assert all({"check": "peers", "state": "ok", "text": "memory of GPU %d is read by a handle" % (1 - n)} in gpu["checks"]
               for n, gpu in enumerate(gpus)), gpus
    status, (gpu,) = checked(directory, devices=2, CUDA_VISIBLE_DEVICES="1", lies=7)
    assert status == 1 and re.findall("software (yes|no)", support.read(file_of(directory))) == ["no", "yes"]
    checked(directory, devices=2, CUDA_VISIBLE_DEVICES="1", lies=7, driver_version=12080)
    assert re.findall("software (yes|no)", support.read(file_of(directory))) == ["no"]


@support.whole
def test_parts_of_a_gpu(directory):
    status, gpus = checked(directory, devices=2, mig="1,2", **PAYS)
    assert status == 0 and len({gpu["uuid"] for gpu in gpus}) == 2, gpus
    assert all("cannot be reached" in gpu["checks"][9]["text"] for gpu in gpus), gpus


def test_no_gpu_and_no_place(directory):
    done = doctor(directory, devices=0)
    assert (done.status, done.output, done.errors) == (1, "n/a  cuInit gives the error 100\n", ""), done.output
    done = doctor(directory, LD_LIBRARY_PATH=directory)
    assert done.status == 1 and done.output.startswith("n/a  libcuda.so.1: "), done.output
    assert os.listdir(directory) == []
    done = doctor("/proc/none", lies=7)
    assert done.status == 125 and "tsrun: the verdict cannot be kept: /proc/none/tsshim/gpu@" in done.errors, done.errors
    done = doctor("", HOME="relative")
    assert done.status == 125 and "tsrun: cannot check the GPUs: HOME: Not a directory" in done.errors, done.errors
    done = run([TSRUN, "doctor", "--gpu", "--", "true"], support.plain_environment())
    assert done.status == 125 and "--gpu checks GPUs, and looks at no command" in done.errors, done.errors


# ---- what counts of it for jobs -----------------------------------------------------------------


# Of the copies of `ways`: those that can be shared, and those that are left alone without a verdict: with them one back and one to
# nowhere.
SHARED, UNPROVEN = (LARGE, 0), (0, LARGE + OTHERS)


def counted(directory, library=TEST_LIBRARY, prefix=(), **machine):
    """(copies that could be shared, those without a verdict) of a job under the default of --copies; None: nothing was counted."""
    env = settings(directory, **machine)
    command = [WAYS, "dlsym"]
    wanted = run(command, support.plain_environment(**env))
    assert wanted.status == 0 and "differs" not in wanted.output, wanted.output
    with Group(library=library) as group:
        found = run([*prefix, *command], group.environment(**env, TSSHIM_SUMMARY="1"))
        assert (found.status, found.output) == (wanted.status, wanted.output), (found.output, found.errors)
        numbers = [int(re.search(words, found.errors + text).group(1)) for words, text in (
            (r"copies to a GPU: (\d+) worked out here", "copies to a GPU: 0 worked out here"),
            (r"(\d+) times: a copy to a GPU for which", "0 times: a copy to a GPU for which"))]
        return tuple(numbers) if found.errors else None


def test_jobs_share_what_was_proven(directory):
    """With the verdict of the check itself, and no other setting."""
    assert checked(directory, **PAYS)[0] == 0
    assert counted(directory) == SHARED
    more = {name: value for name, value in settings(directory).items() if name != "LD_LIBRARY_PATH"}
    with Gpu(TSSHIM_COPIES="auto", **more) as gpu:
        gpu.run_until(lambda counters: counters.get("d2d_copies", 0) > 40, 2)
        assert gpu.taken() > 0
        gpu.safe()


def test_nothing_happens_without_a_verdict(directory):
    assert counted(directory) is None
    assert counted(directory, HOME="relative", XDG_STATE_HOME="") is None


def test_a_verdict_of_software_counts_in_tests_only(directory):
    verdict(directory, *row())
    assert counted(directory) == SHARED
    assert counted(directory, library=LIBRARY) == UNPROVEN
    for call in ("cuDriverGetVersion", "cuDeviceGetUuid_v2"):
        assert counted(directory, fail=call + ":0:1") == UNPROVEN, call


OTHERS = {
    "says no": lambda place: verdict(place, *row(said="no")),
    "of another gpu": lambda place: verdict(place, *row(uuid="46414b45435544412d47505501000000")),
    "of another cuda": lambda place: verdict(place, *row(cuda="12080")),
    "of another driver": lambda place: verdict(place, *row(driver="580.65.06")),
    "of no gpu": lambda place: verdict(place),
    "of another version": lambda place: verdict(place, *row(), head="tsshim-gpu 2"),
    "no verdict at all": lambda place: support.write(verdict(place), "{}", 0o600),
    "empty": lambda place: support.write(verdict(place), "", 0o600),
    "too large": lambda place: verdict(place, *row(), *["say %01000d" % 0] * 9),
    "with a zero": lambda place: verdict(place, *row(), "\0"),
    "a byte is another": lambda place: support.overwrite(verdict(place, *row(said="no "), *row()), 20, b"5"),
    "the end is missing": lambda place: os.truncate(verdict(place, *row()), 70),
    "the group may write": lambda place: os.chmod(verdict(place, *row()), 0o620),
    "others may write": lambda place: os.chmod(verdict(place, *row()), 0o602),
    "a link": lambda place: os.symlink("other", moved(verdict(place, *row()))),
    "a fifo": lambda place: os.mkfifo(moved(verdict(place, *row())), 0o600),
    "a directory": lambda place: os.mkdir(moved(verdict(place, *row())), 0o700),
}


def moved(path):
    os.rename(path, os.path.join(os.path.dirname(path), "other"))
    return path


def test_what_is_no_verdict_counts_for_nothing(directory):
    harmless = ("says no", "of another gpu", "of another cuda", "of no gpu")  # so it is, with a driver made of software
    for what, make in OTHERS.items():
        place = os.path.join(directory, what.replace(" ", "-"))
        make(place)
        assert counted(place) == UNPROVEN, what
        said = run([TSRUN, "doctor"], support.plain_environment(**settings(place))).output
        line = next(line for line in said.splitlines() if line[5:7] == "20")
        assert line.startswith("n/a " if what in harmless else "warn"), (what, line)


def test_a_verdict_of_another_user(directory):
    if os.geteuid() != 0:
        raise support.Skip("root", "only root can give files away")
    os.chown(verdict(directory, *row()), 65534, 65534)
    assert counted(directory) == UNPROVEN


@support.whole
def test_with_a_kernel_module(directory):
    """As on a machine with a GPU: the module's version is part of the verdict, in the installed library as well."""
    prefix = mounted(*MODULE)
    doctor_of = [*prefix, TSRUN, "doctor"]
    env = support.plain_environment(**settings(directory))
    none = mounted(MODULE[0])
    assert "n/a  20  no verdict on copies to a GPU, and no GPU to be seen\n" in run([*none, TSRUN, "doctor"], env).output
    said = run(doctor_of, env).output
    assert "warn 20  copies to GPUs are not shared: nobody has tried" in said and "fix: `tsrun doctor --gpu`, once" in said, said
    done = doctor(directory, prefix=prefix, **PAYS)
    assert done.status == 0 and "(0) (driver 580.65.06, CUDA 13.0" in done.output, (done.output, done.errors)
    assert "ok   20  Software stand-in" in run(doctor_of, env).output
    assert "default, shared with 1 of 1 GPU\n" in run([*prefix, TSRUN, "config"], env).output
    assert counted(directory, library=LIBRARY, prefix=prefix) == SHARED
    assert counted(directory, library=LIBRARY) == UNPROVEN
    newer = mounted(*MODULE[:2], MODULE[2].replace("580.65", "590.10"))
    assert counted(directory, library=LIBRARY, prefix=newer) == UNPROVEN
    said = run([*newer, TSRUN, "doctor"], env).output
    assert re.search(r"warn 20  .*; that was with another driver than now\n +fix: `tsrun doctor --gpu` again", said), said
