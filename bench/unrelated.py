# SPDX-License-Identifier: MIT
"""unrelated: what is added to calls that we export but have nothing to do with."""
import json
import os
import tempfile

from tsbench import native
from tsbench.setup import row

ROUNDS = 21

CALLS = {
    "jpeg_abort": "jpeg_abort() of a compressor",
    "jpeg_destroy": "jpeg_destroy() of a compressor",
    "open": "open() while no sample is made",
    "fopen": "fopen() while no sample is made",
    "fstat": "fstat() while no files are staged",
    "stat": "stat() while no paths are known",
    "telldir": "telldir() while no listings are shared",
    "dlsym": "dlsym() while no copies to a GPU are shared",
}

# With --stage: where the staged directory lies, seen from a file that is not in it.
STAGED = {"elsewhere": "on another device", "beside": "on the same device"}

# Copies to a GPU that are not shared: of a lone job, with so many of each size. The driver is
# one of software (tests/fakecuda), whose copies are memory's: a GPU has not run this.
COPIES = {"1 MiB": (1 << 20, 400), "38 MB": (38 << 20, 24)}


def _copies(setup):
    """
    What copies that are not shared take: without the library, and with sharing off and on.  On
    one core: the driver's thread is woken for each, which takes 30 us more or less on another.
    """
    affinity = os.sched_getaffinity(0)
    os.sched_setaffinity(0, [max(affinity)])
    try:
        return _time_copies(setup)
    finally:
        os.sched_setaffinity(0, affinity)


def _time_copies(setup):
    program = native.program(setup.root, setup.native, "copies")
    where = native.software_driver(setup.root, setup.native)
    path = ":".join(filter(None, (where, os.environ.get("LD_LIBRARY_PATH"))))

    def once(words, copies):
        group = copies and setup.place.group(f"copies-{copies}")
        job = setup.place.start([program, *words], group, {"LD_LIBRARY_PATH": path},
                                options=("--copies", copies) if copies else ())
        setup.place.end([job])
        return next(iter(json.loads(job.lines[0]).values()))

    raw = []
    for number in range(1 if setup.quick else ROUNDS):
        order = [1, -1][number % 2]
        one = {"small": {str(kind): once([], kind) for kind in ["on", None][::order]}}
        for name, words in COPIES.items():
            one[name] = {kind: once(map(str, words), kind) for kind in ["on", "off"][::order]}
        raw.append(one)
    driver = "a driver made of software"
    rows = [row("unrelated-copy-small", f"added to a copy to a GPU below 256 KiB, {driver}", 200,
                [one["small"]["on"] - one["small"]["None"] for one in raw], unit="ns")]
    rows += [row(f"unrelated-copy-{name.replace(' ', '')}",
                 f"a lone job's copy of {name} with sharing on / off, {driver}", 1.02,
                 [one[name]["on"] / one[name]["off"] for one in raw]) for name in COPIES]
    return raw, rows


def _once(setup, program, group, directory=None):
    options = ("--stage", "shm", "--dataset", f"d={directory}") if directory else ()
    job = setup.place.start([program], group, options=options)
    setup.place.end([job])
    return json.loads(job.lines[0])


def _round(setup, program, group, directories, backwards):
    kinds = {"without": (None, None), "with": (group, None)}
    kinds.update({name: (group, directory) for name, directory in directories.items()})
    return {kind: _once(setup, program, *kinds[kind])
            for kind in sorted(kinds, reverse=backwards)}


def measure(setup):
    program = native.program(setup.root, setup.native, "unrelated")
    group = setup.place.group("unrelated")
    beside = os.path.join(setup.place.directory, "staged")
    os.mkdir(beside)
    with tempfile.TemporaryDirectory(prefix="tsshim-bench-", dir="/dev/shm") as elsewhere:
        directories = {"elsewhere": elsewhere, "beside": beside}
        raw = [_round(setup, program, group, directories, number % 2 == 1)
               for number in range(1 if setup.quick else ROUNDS)]
    rows = [row(f"unrelated-{call}", f"added to {what}", 30,
                [one["with"][call] - one["without"][call] for one in raw], unit="ns")
            for call, what in CALLS.items()]
    rows += [row(f"unrelated-{name}", f"--stage: added to open() of a file outside, {what}", 1000,
                 [one[name]["file"] - one["without"]["file"] for one in raw], unit="ns")
             for name, what in STAGED.items()]
    copies, more = _copies(setup)
    rows += more
    return {"title": "Unrelated calls", "rows": rows, "raw": raw, "copies": copies,
            "settings": setup.settings()}
