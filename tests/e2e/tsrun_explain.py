# SPDX-License-Identifier: MIT
"""`tsrun explain`: what jobs say of their loaders, and what is said of a program that is not run."""

import contextlib
import glob
import json
import os
import re
import signal
import subprocess
import tempfile

import support
from support import Group, TSRUN, plain_environment

JOB = os.path.join(support.HERE, "tsrun_explain_job.py")


def explain(*words, env=None, **more):
    return subprocess.run([TSRUN, "explain", *words], env=env or plain_environment(), text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=support.TIMEOUT, **more)


# ---- jobs that run ----

@contextlib.contextmanager
def job(group, *words, **more):
    """The process of a job that has gone through its loaders and waits."""
    process = subprocess.Popen([support.torch_python(), JOB, *words], text=True,
                               env=group.environment(**more), stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, start_new_session=True)
    try:
        assert process.stdout.readline() == "ready\n"
        yield process
        process.communicate("\n", timeout=support.TIMEOUT)
        assert process.returncode == 0
    finally:
        with contextlib.suppress(ProcessLookupError):
            support.signal_job(process, signal.SIGKILL)
        process.wait()


def told(group, *words):
    """The jobs of `tsrun explain --json`, which says nothing else."""
    done = explain("--json", "--group", group.name, *words)
    assert (done.returncode, done.stderr) == (0, ""), done
    return json.loads(done.stdout)["jobs"]


def reasons():
    """{id: (text, what helps)}"""
    with open(os.path.join(support.HERE, "../../shim/reasons.h"), encoding="utf-8") as file:
        body = re.search(r"#define TS_REASONS\(X\)(.*?)\n\n", file.read(), re.S).group(1)
    found = [re.findall(r'"((?:[^"\\]|\\.)*)"', row) for row in re.split(r"\bX\(", body)[1:]]
    return {row[0]: (row[1], row[2] if len(row) > 2 else None) for row in found}


def children(pid):
    with open("/proc/%d/task/%d/children" % (pid, pid)) as file:
        return list(map(int, file.read().split()))


def line_of(text):
    with open(JOB) as file:
        return next(number for number, line in enumerate(file, 1) if text in line)


def test_each_loader_has_its_verdict_by_default():
    with Group() as group, job(group, "pure:2", "locked:1", "stream", "collated") as process:
        found = told(group)
        assert [one["pid"] for one in found] == [process.pid]
        pure, locked, stream, collated = found[0]["loaders"]
        assert {key: pure[key] for key in ("dataset", "length", "batch_size", "workers", "iterable",
                                           "persistent_workers", "aligned", "shared", "reason")} == {
            "dataset": "__main__.Pure", "length": 48, "batch_size": 4, "workers": 2, "iterable": False,
            "persistent_workers": True, "aligned": False, "shared": "samples", "reason": None}, pure
        assert pure["place"] == "%s:%d" % (JOB, line_of("class Pure") + 1), pure
        assert pure["sampler"] == "torch.utils.data.sampler.SequentialSampler" and not pure["collate"]
        assert (locked["dataset"], locked["shared"], locked["reason"], locked["detail"]) == (
            "__main__.Locked", "no", "torch_dataset", "threading.Condition"), locked
        assert (locked["text"], locked["fix"]) == reasons()["torch_dataset"]
        assert locked["sampler"] == "torch.utils.data.sampler.RandomSampler"
        assert (stream["iterable"], stream["length"], stream["shared"], stream["reason"]) == (
            True, None, "no", "torch_iterable"), stream
        assert (stream["text"], stream["fix"]) == reasons()["torch_iterable"]
        assert collated["collate"] == "__main__.collate" and collated["reason"] == "torch_dataset"
        assert collated["detail"] == "a collate function that may change the data set", collated
        assert found[0]["more_loaders"] == 0 and found[0]["samples"]["made"] > 0, found
    assert not group.leftovers()


def test_each_loader_has_its_verdict_when_aligned():
    with Group(TSSHIM_ALIGN="7") as group, job(group, "pure:2", "locked:1", "stream") as process:
        pure, locked, stream = told(group)[0]["loaders"]
        assert (pure["aligned"], pure["shared"], pure["reason"]) == (True, "samples", None), pure
        assert (locked["shared"], locked["reason"]) == ("no", "torch_dataset"), locked
        assert locked["detail"].startswith("dataset.lock (threading.Condition): a lock"), locked
        # To say --align is no advice to a job that does.
        assert locked["fix"] == "keep what is named above out of the data set", locked
        assert (stream["reason"], stream["fix"]) == ("torch_iterable", "a loader with workers"), stream
        # By the job's process id or a worker's, in whichever group.
        for pid in (process.pid, children(process.pid)[0]):
            done = explain("--json", "--pid", str(pid))
            assert done.returncode == 0, done.stderr
            assert [one["pid"] for one in json.loads(done.stdout)["jobs"]] == [process.pid]


def test_words_for_people():
    with Group() as group, job(group, "pure:2", "locked:1") as process:
        done = explain("--group", group.name)
        assert (done.returncode, done.stderr) == (0, "")
        text, fix = reasons()["torch_dataset"]
        for line in ("Job with pid %d in group %s: " % (process.pid, group.name),
                     "    Loader 1 over __main__.Pure (%s:" % JOB,
                     "      default mode, 48 items, batches of 4, workers: 2, persistent, torch.",
                     "      shared:  whole samples\n", "    Loader 2 over __main__.Locked (",
                     "      shared:  no samples\n      why:     torch_dataset: %s\n" % text,
                     "      namely:  threading.Condition\n      fix:     %s\n" % fix):
            assert line in done.stdout, (line, done.stdout)
        assert "libjpeg" in done.stdout


def test_switched_to_pixels():
    with Group(TSSHIM_SHARE="pixels") as group, job(group, "pure"):
        found, = told(group)[0]["loaders"]
        assert (found["shared"], found["reason"], found["detail"]) == (
            "no", "disabled", "--share pixels"), found


def test_the_seventeenth_loader_is_counted():
    with Group() as group, job(group, "many"):
        found, = told(group)
        assert [one["batch_size"] for one in found["loaders"]] == list(range(1, 17)), found
        assert found["more_loaders"] == 2
        assert "    and 2 more loaders, of which nothing is kept\n" in explain(
            "--group", group.name).stdout


def test_a_loader_made_anew_for_each_epoch_is_one():
    with Group() as group, job(group, "anew"):
        found, = told(group)
        assert (len(found["loaders"]), found["more_loaders"]) == (1, 0), found


def test_names_command_no_terminal():
    with Group() as group, job(group, "strange"):
        found, = told(group)[0]["loaders"]
        assert found["dataset"].endswith("\x1b[31mred\u202e\x9b\n"), found
        assert found["dataset"].startswith("\u2026") and len(found["dataset"].encode()) <= 127
        done = explain("--group", group.name)
        line = next(line for line in done.stdout.split("\n") if "Loader 1" in line)
        assert "\u00e9\\x1b[31mred\\xe2\\x80\\xae\\xc2\\x9b\\x0a" in line, line
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", done.stdout), done.stdout


def test_two_jobs_of_a_group_are_told_apart():
    with Group() as group, job(group, "pure") as first, job(group, "locked") as second:
        found = {one["pid"]: [loader["dataset"] for loader in one["loaders"]] for one in told(group)}
        assert found == {first.pid: ["__main__.Pure"], second.pid: ["__main__.Locked"]}
        assert [one["pid"] for one in told(group, "--pid", str(second.pid))] == [second.pid]


def test_killed_while_it_says_something():
    for point in ("loader_claimed", "loader_written", "loader_detail"):
        with Group(support.TEST_LIBRARY) as group:
            done = subprocess.run([support.torch_python(), JOB, "locked"], timeout=support.TIMEOUT,
                                  env=group.environment(TSSHIM_TEST_KILL=point),
                                  stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
            assert done.returncode == -signal.SIGKILL, (point, done)
            assert told(group) == []
            with job(group, "locked", "pure") as process:
                found, = told(group)
                assert found["pid"] == process.pid
                assert [one["dataset"] for one in found["loaders"]] == [
                    "__main__.Locked", "__main__.Pure"], (point, found)
            group.assert_clean(after_kill=True)


def test_a_table_that_is_none_is_said():
    with Group() as group, job(group, "pure"):
        path, = glob.glob("/dev/shm/" + support.shared_name(group.name, "loaders"))
        with open(path, "rb") as file:
            whole = file.read()
        mark = "cannot read what the jobs of group '%s' say of their loaders: " % group.name

        def says(what):
            done = explain("--json", "--group", group.name)
            assert done.returncode == 0 and mark + what in done.stderr, (what, done.stderr)
            found, = json.loads(done.stdout)["jobs"]
            assert found["loaders"] == [] and found["samples"], found

        os.chmod(path, 0o640)
        says("it is damaged")
        os.chmod(path, 0o600)
        if os.getuid() == 0:
            os.chown(path, 12345, 12345)
            says("it belongs to somebody else")
            os.chown(path, 0, 0)
        os.rename(path, path + ".real")
        try:
            for content, what in ((whole[:4096], "it is damaged"), (b"", "it is damaged"),
                                  (b"\xff" + whole[1:], "it is damaged"),
                                  (whole[:8] + b"\xff" + whole[9:], "it was made by another version"),
                                  (whole[:64] + b"\xff" + whole[65:], "it is damaged"),
                                  (bytes(len(whole)), "it is damaged")):
                with open(os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "wb") as file:
                    file.write(content)
                says(what)
            os.unlink(path)
            os.symlink("/etc/passwd", path)
            says("it belongs to somebody else or is no regular file")
            os.unlink(path)
            os.mkfifo(path, 0o600)
            says("it belongs to somebody else or is no regular file")
            os.unlink(path)
            done = explain("--group", group.name)
            assert done.returncode == 0 and "no job of the group has said anything" in done.stdout
        finally:
            os.rename(path + ".real", path)
        assert len(told(group)[0]["loaders"]) == 1
    assert not group.leftovers()


def test_gc_takes_it_along():
    with Group() as group:
        with job(group, "pure") as process:
            path, = glob.glob("/dev/shm/" + support.shared_name(group.name, "loaders"))
            assert os.stat(path).st_mode & 0o777 == 0o600
            assert "would remove" not in group.gc().stdout and os.path.exists(path)
            support.signal_job(process, signal.SIGKILL)
            process.wait()
            assert os.path.exists(path)
            done = group.gc()
            assert "removed " + path in done.stdout and not os.path.exists(path), done.stdout
            process.returncode = 0  # as the context expects of it
            process.communicate = lambda *_, **__: None


def test_who_is_no_job():
    done = explain("--pid", str(os.getpid()))
    assert done.returncode == 125 and "it was started without the library" in done.stderr, done
    done = explain("--pid", "4194304")
    assert done.returncode == 125 and done.stderr == "tsrun: there is no process 4194304\n", done
    for word in ("x", "-1", "0", "1x", "99999999999999999999"):
        done = explain("--pid=" + word)
        assert done.returncode == 125 and "has a bad value '%s'" % word in done.stderr, done
    with Group() as group:
        done = explain("--group", group.name)
        assert done.returncode == 0 and done.stdout.startswith("No job runs that shares"), done
        assert told(group) == []
    done = explain("--pid", "1", "--", "true")
    assert done.returncode == 125 and "exclude each other" in done.stderr


# ---- a program that is not run ----

SCRIPT = '''\
import os, threading
import numpy as np
from torch.utils.data import DataLoader, Dataset, IterableDataset
from torchvision import datasets as folders
import tsshim_is_not_a_module
import datasets, packages
from broken import Broken
print("imported")

open(os.environ["MARK"], "w").close()
SIZE = (2 * 4, 3)
TABLE = dict(a=SIZE)

class Pure(Dataset):
    def __init__(self, files, transform=None):
        self.files, self.transform = files, transform
    def __len__(self):
        return len(self.files)
    def __getitem__(self, index):
        return self.transform(self.files[index])

class Counting(Dataset):
    def __init__(self):
        self.calls = 0
        self.random = np.random.default_rng(1)
    def __len__(self):
        return 4
    def __getitem__(self, index):
        self.calls += 1
        return self.calls

class Locked(Pure):
    def __init__(self):
        self.lock = threading.Condition()

class Needs(Pure):
    def __getitem__(self, index):
        return TABLE

class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(4))

@os.environ["MARK"].partition
def decorated(value=open(os.environ["MARK"], "w")):
    return value

if __name__ == "__main__":
    loader = DataLoader(Pure([]), 8, True, num_workers=2, generator=object())
    open(os.environ["MARK"], "w").close()
held_out = DataLoader(folders.ImageFolder("x"), collate_fn=list, **{})
for number in range(3):
    open(os.environ["MARK"], "w").close()
'''
BESIDE = {
    # Modules of the program's that are called like ours.
    "datasets.py": 'from torch.utils.data import Dataset\nprint("to stdout")\n\n'
                   "class Beside(Dataset):\n    def __getitem__(self, index):\n        return index\n",
    "packages.py": "NAME = 1\n",
    "broken.py": "import sys\n\nsys.exit(3)\n",
}


@contextlib.contextmanager
def program(source=SCRIPT):
    """(its directory, an environment)"""
    with tempfile.TemporaryDirectory() as place:
        for name, text in {**BESIDE, "train.py": source}.items():
            with open(os.path.join(place, name), "w") as file:
                file.write(text)
        yield place, plain_environment(MARK=os.path.join(place, "mark"))


def look(source=SCRIPT, words=("train.py", "--lr", "1"), **more):
    """(what `tsrun explain --json` finds in @source, what it says besides)"""
    with program(source) as (place, env):
        before = sorted(os.listdir(place))
        done = explain("--json", "--", support.torch_python(), *words, env=env, cwd=place, **more)
        assert sorted(os.listdir(place)) == before, "it was run"
        assert done.returncode == 0, done
        return json.loads(done.stdout), done.stderr


def test_a_script_without_a_guard_is_not_run():
    found, errors = look()
    # What an import prints is not mixed into ours.
    assert errors == "to stdout\n", errors
    assert found["python"] and found["hooked"] and os.path.basename(found["script"]) == "train.py"
    left = [one["statement"] for one in found["imports"]["not_executed"]]
    for part in ("print('imported')", "open(", "TABLE = dict(a=SIZE)", "@os.environ['MARK'].partition",
                 "a default of decorated(): open(", "for number in range(3):", "held_out = DataLoader("):
        assert any(part in one for one in left), (part, left)
    assert found["imports"]["not_executed_count"] == len(left)


def test_failed_imports_are_named():
    found, _ = look()
    first, second = found["imports"]["failed"]
    assert first["error"] == "ModuleNotFoundError: No module named 'tsshim_is_not_a_module'", first
    assert (first["line"], first["at"], os.path.basename(first["file"])) == (5, 5, "train.py"), first
    assert (second["error"], second["line"], second["at"], os.path.basename(second["file"])) == (
        "SystemExit: 3", 7, 3, "broken.py"), second
    # And the rest is told all the same.
    assert len(found["datasets"]) == 7 and len(found["loaders"]) == 2


def test_data_sets_are_judged_by_their_classes():
    found, _ = look()
    rows = {row["class"].rpartition(".")[2]: row for row in found["datasets"]}

    def verdicts(name):
        return tuple((rows[name][mode]["shared"], rows[name][mode]["reason"])
                     for mode in ("default", "aligned"))

    good, bad = ("samples", None), ("no", "torch_dataset")
    assert verdicts("Pure") == (good, good) and rows["Pure"]["attributes"] == ["files", "transform"]
    assert rows["Pure"]["line"] == 14 and os.path.basename(rows["Pure"]["file"]) == "train.py"
    assert verdicts("Counting") == (bad, good)
    assert "__getitem__" in rows["Counting"]["default"]["detail"], rows["Counting"]
    assert rows["Counting"]["held"][0]["attribute"] == "random"
    assert verdicts("Locked") == (bad, bad)
    assert "self.lock (line 34), threading.Condition" in rows["Locked"]["aligned"]["detail"]
    assert verdicts("Needs")[0] == ("unknown", None)
    assert rows["Needs"]["default"]["detail"] == "TABLE, which is not known before line 12 is run"
    assert verdicts("Stream") == (("no", "torch_iterable"), good)
    assert verdicts("Beside") == (good, good) and rows["Beside"]["class"] == "datasets.Beside"
    assert verdicts("ImageFolder") == (good, good) and rows["ImageFolder"]["line"] == 51
    for mode in ("default", "aligned"):
        for row in rows.values():
            reason = row[mode]["reason"]
            if reason is not None:
                assert row[mode]["text"] == reasons()[reason][0], row
                assert row[mode]["fix"], row


def test_calls_of_loaders_are_found():
    found, _ = look()
    first, second = found["loaders"]
    assert first["line"] == 49 and first["arguments"] == {
        "dataset": "Pure([])", "batch_size": "8", "shuffle": "True", "num_workers": "2",
        "generator": "object()"}, first
    assert [bool(re.search(word, " ".join(first["notes"]))) for word in (
        "--align-orders", "shuffled", "no workers")] == [True, True, False], first
    assert second["line"] == 51 and [bool(re.search(word, " ".join(second["notes"]))) for word in (
        "collate function", r"\*\*kwargs")] == [True, True], second


def test_packages_and_decoders_are_told():
    found, _ = look("import torch, PIL.Image\nimport grain\n", words=["train.py"])
    judged = {row["name"]: row for row in found["packages"]["judged"]}
    assert set(judged) >= {"Python", "torch", "Pillow"} and all(
        row["judged"] for row in judged.values()), judged
    assert isinstance(found["packages"]["decoders"]["libjpeg"], list)
    found, _ = look("import keras.src\n", words=["train.py"])
    assert found["imports"]["failed"] and found["packages"]["others"] == []


def test_for_people():
    with program() as (place, env):
        done = explain("--", support.torch_python(), "train.py", env=env, cwd=place)
        assert done.returncode == 0, done
        text = done.stdout
    for line in ("FAILED  import tsshim_is_not_a_module (train.py:5)\n",
                 "        SystemExit: 3, at broken.py:3\n", "Data set __main__.Pure (train.py:14), map\n",
                 "    default mode:  whole samples can be shared\n", "no samples: torch_dataset: ",
                 "DataLoader at train.py:49: dataset=Pure([]), ", "Not known before it runs: "):
        assert line in text, (line, text)


def test_modules_code_and_launchers():
    words = {"-m": ["-m", "datasets"], "-Bm": ["-Bm", "datasets"], "-c": ["-c", "class A: pass"],
             "-I": ["-I", "datasets.py"], "torchrun": ["-m", "torch.distributed.run", "--nproc_per_node",
                                                       "2", "datasets.py", "--lr", "1"]}
    for name, command in words.items():
        found, _ = look(words=command)
        assert found["hooked"] == (name != "-I"), (name, found)
        rows = [row["class"] for row in found["datasets"]]
        assert rows == ([] if name == "-c" else ["__main__.Beside"]), (name, rows)
    check = {one["id"]: one for one in look(words=["-I", "datasets.py"])[0]["checks"]}
    assert check["python"]["state"] == "warn" and "-I" in check["python"]["found"], check


def test_an_interpreter_that_does_not_take_the_library():
    driver = os.path.join(support.BUILD, "python", "tsshim_torch", "explain", "run.py")
    with program() as (place, env):
        done = subprocess.run([support.PYTHON, driver, "json", "1", '{"checks": [], "reasons": {}}',
                               "datasets.py"], cwd=place, env=env, text=True, timeout=support.TIMEOUT,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert done.returncode == 0, done
    found = json.loads(done.stdout)
    assert not found["hooked"] and [row["class"] for row in found["datasets"]] == ["__main__.Beside"]


def test_scripts_that_are_none():
    for source in ("def f(:\n", "\0", "import os\nx = \n"):
        found, _ = look(source, words=["train.py"])
        assert "Error" in found["imports"]["failed"][0]["error"], found
    found, errors = look("import sys\nraise SystemExit(3)\n", words=["train.py"])
    assert found["imports"]["failed"] == [] and errors == ""
    names = {"\\x1b[31m": "print('\x1b[31m')\n"}
    for shown, source in names.items():
        with program(source) as (place, env):
            done = explain("--", support.torch_python(), "train.py", env=env, cwd=place)
            assert "\x1b" not in done.stdout and shown in done.stdout, done.stdout


def test_status_of_commands():
    assert explain("--", "tsshim-no-such-command").returncode == 127
    done = explain("--", "/etc/passwd")
    assert done.returncode == 126 and "cannot be executed" in done.stderr, done
    done = explain("--")
    assert done.returncode == 125 and "no command given" in done.stderr, done
    done = explain("--", support.PYTHON, "/nowhere/train.py")
    assert done.returncode == 125 and "No such file" in done.stdout, done
    done = explain("--json", "--", "/bin/ls")
    assert done.returncode == 0 and not json.loads(done.stdout)["python"], done
    assert "is no Python" in explain("--", "/bin/ls").stdout


def test_output_that_cannot_be_written():
    with program() as (place, env), open("/dev/full", "w") as full:
        done = subprocess.run([TSRUN, "explain", "--", support.torch_python(), "datasets.py"], cwd=place,
                              env=env, stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE,
                              text=True, timeout=support.TIMEOUT)
    assert done.returncode == 125 and "cannot write to standard output" in done.stderr, done


def test_an_import_that_hangs_can_be_interrupted():
    source = "import waits\n"
    with program(source) as (place, env):
        with open(os.path.join(place, "waits.py"), "w") as file:
            file.write("import sys, time\nsys.stderr.write('waits\\n')\nsys.stderr.flush()\n"
                       "assert sys.stdin.read() == ''\ntime.sleep(600)\n")
        process = subprocess.Popen([TSRUN, "explain", "--", support.PYTHON, "train.py"], cwd=place,
                                   env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert process.stderr.readline() == "waits\n"
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=support.TIMEOUT)
        assert process.returncode == 130 and out == "", (process.returncode, out)


def test_nothing_is_left_and_nothing_shared():
    with Group() as group, program() as (place, env):
        done = explain("--", support.torch_python(), "train.py", cwd=place,
                       env={**env, "TSSHIM_GROUP": group.name, "TSSHIM_ALIGN": "1"})
        assert done.returncode == 0 and group.leftovers("*") == []


if __name__ == "__main__":
    support.main((name[5:], function) for name, function in list(globals().items())
                 if name.startswith("test_"))
