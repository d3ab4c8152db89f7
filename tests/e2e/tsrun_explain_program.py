# SPDX-License-Identifier: MIT
"""`tsrun explain` of a program that is not run: what is said of it before."""

import contextlib
import functools
import json
import os
import re
import signal
import subprocess
import tempfile

import support
from support import Group, TSRUN, plain_environment
from tsrun_explain_common import explain, reasons

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

class Listed:
    def __len__(self):
        return 4
    def __getitem__(self, index):
        return index

class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(4))

@os.environ["MARK"].partition
def decorated(value=open(os.environ["MARK"], "w")):
    return value

if __name__ == "__main__":
    loader = DataLoader(Pure([]), 8, True, num_workers=2, generator=object())
    open(os.environ["MARK"], "w").close()
seen = DataLoader(Listed())
held_out = DataLoader(folders.ImageFolder("x"), collate_fn=list, **{})
for number in range(3):
    open(os.environ["MARK"], "w").close()
'''
BESIDE = {
    # Modules of the program's that are called like ours.
    "datasets.py": 'from torch.utils.data import Dataset\nprint("to stdout")\n\n'
                   "class Beside(Dataset):\n    def __getitem__(self, index):\n        return index\n",
    "packages.py": "class Features:\n    def __len__(self):\n        return 1\n"
                   "    def __getitem__(self, index):\n        return index\n\nSTAGES = Features()\n",
    "broken.py": "import sys\n\nsys.exit(3)\n",
    "plain.py": 'import os\nprint("not now")\n',  # without PyTorch, which takes a second
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


@functools.lru_cache(maxsize=None)
def looked():
    """look() at SCRIPT, for tests that only read it."""
    return look()


def test_a_script_without_a_guard_is_not_run():
    found, errors = looked()
    # What an import prints is not mixed into ours.
    assert errors == "to stdout\n", errors
    assert found["python"] and found["hooked"] and os.path.basename(found["script"]) == "train.py"
    left = [one["statement"] for one in found["imports"]["not_executed"]]
    for part in ("print('imported')", "open(", "TABLE = dict(a=SIZE)", "@os.environ['MARK'].partition",
                 "a default of decorated(): open(", "for number in range(3):", "held_out = DataLoader("):
        assert any(part in one for one in left), (part, left)
    assert found["imports"]["not_executed_count"] == len(left)


def test_failed_imports_are_named():
    found, _ = looked()
    first, second = found["imports"]["failed"]
    assert first["error"] == "ModuleNotFoundError: No module named 'tsshim_is_not_a_module'", first
    assert (first["line"], first["at"], os.path.basename(first["file"])) == (5, 5, "train.py"), first
    assert (second["error"], second["line"], second["at"], os.path.basename(second["file"])) == (
        "SystemExit: 3", 7, 3, "broken.py"), second
    # And the rest is told all the same.
    assert len(found["datasets"]) == 8 and len(found["loaders"]) == 3


def test_data_sets_are_judged_by_their_classes():
    found, _ = looked()
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
    assert verdicts("ImageFolder") == (good, good) and rows["ImageFolder"]["line"] == 58
    # Of two classes that could be data sets, the one of which an object is made where loaders are.
    assert verdicts("Listed") == (good, good) and "Features" not in rows, rows
    for mode in ("default", "aligned"):
        for row in rows.values():
            reason = row[mode]["reason"]
            if reason is not None:
                assert row[mode]["text"] == reasons()[reason][0], row
                assert row[mode]["fix"], row


def test_calls_of_loaders_are_found():
    found, _ = looked()
    first, _, second = found["loaders"]
    assert first["line"] == 55 and first["arguments"] == {
        "dataset": "Pure([])", "batch_size": "8", "shuffle": "True", "num_workers": "2",
        "generator": "object()"}, first
    assert [bool(re.search(word, " ".join(first["notes"]))) for word in (
        "--align-orders", "shuffled", "no workers")] == [True, True, False], first
    assert second["line"] == 58 and [bool(re.search(word, " ".join(second["notes"]))) for word in (
        "collate function", r"\*\*kwargs")] == [True, True], second


def test_packages_and_decoders_are_told():
    found, _ = look("import torch, PIL.Image\nimport grain\n", words=["train.py"])
    judged = {row["name"]: row for row in found["packages"]["judged"]}
    assert set(judged) >= {"Python", "torch", "Pillow"} and all(
        row["judged"] for row in judged.values()), judged
    assert isinstance(found["packages"]["decoders"]["libjpeg"], list)
    found, _ = look("import keras.src\n", words=["train.py"])
    assert found["imports"]["failed"] and found["packages"]["others"] == []


@functools.lru_cache(maxsize=None)
def worded():
    """(what it says of SCRIPT to people, what of its group is left in shared memory)"""
    with Group() as group, program() as (place, env):
        done = explain("--", support.torch_python(), "train.py", cwd=place,
                       env={**env, "TSSHIM_GROUP": group.name, "TSSHIM_ALIGN": "1"})
        return done, group.leftovers("*")


def test_for_people():
    done, _ = worded()
    assert done.returncode == 0, done
    for line in ("FAILED  import tsshim_is_not_a_module (train.py:5)\n",
                 "        SystemExit: 3, at broken.py:3\n", "Data set __main__.Pure (train.py:14), map\n",
                 "    default mode:  whole samples can be shared\n", "no samples: torch_dataset: ",
                 "DataLoader at train.py:55: dataset=Pure([]), ", "Not known before it runs: "):
        assert line in done.stdout, (line, done.stdout)


def test_nothing_is_left_and_nothing_shared():
    done, left = worded()
    assert done.returncode == 0 and left == [], (done, left)


def test_modules_code_and_launchers():
    words = {"-m": ["-m", "datasets"], "-Bm": ["-Bm", "plain"], "-c": ["-c", "class A: pass"],
             "-I": ["-I", "plain.py"], "torchrun": ["-m", "torch.distributed.run", "--nproc_per_node",
                                                    "2", "datasets.py", "--lr", "1"]}
    found = {name: look(words=command)[0] for name, command in words.items()}
    assert [name for name, one in found.items() if not one["hooked"]] == ["-I"], found
    for name, script in {"-m": "datasets.py", "-Bm": "plain.py", "-c": None, "-I": "plain.py",
                         "torchrun": "datasets.py"}.items():
        one = found[name]
        assert (one["script"] and os.path.basename(one["script"])) == script, (name, one)
        rows = [row["class"] for row in one["datasets"]]
        assert rows == (["__main__.Beside"] if script == "datasets.py" else []), (name, rows)
        left = [row["statement"] for row in one["imports"]["not_executed"]]
        assert left == {"datasets.py": ["print('to stdout')"], "plain.py": ["print('not now')"],
                        None: []}[script], (name, left)
    check = {one["id"]: one for one in found["-I"]["checks"]}
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
        done = subprocess.run([TSRUN, "explain", "--", support.torch_python(), "plain.py"], cwd=place,
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


if __name__ == "__main__":
    support.main(support.functions(globals()))
