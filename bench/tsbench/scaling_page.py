# SPDX-License-Identifier: MIT
"""From the recorded results of `scaling`: the tables and plots of docs/scaling.md."""
import json
import os

from . import figures
from . import scaling_cluster as clusters
from . import scaling_model as model
from .results import BEGIN, END
from .scaling_cluster import LOCALITY, NAMES, SUPPOSED
from .scaling_moved import PUBLISHED


def results_directory(setup):
    """Where the recorded benchmarks are, in a quick run too: that makes none to begin with."""
    return os.path.join(setup.root, "bench", "results")


def as_json(raw):
    """@raw as it will be when it is read again: names are text."""
    return json.loads(json.dumps(raw))


LOOKS = {way: look for look, way in enumerate(NAMES)}  # the same in all plots


def _job_figure(raw):
    counts = [int(nodes) for nodes in raw["jobs"]]
    lines = [{"label": "training alone, equation (1)", "reference": True, "x": counts,
              "y": [raw["training_s"][str(nodes)] for nodes in counts]}]
    lines += [{"label": name, "look": LOOKS[way], "x": counts,
               "y": [raw["jobs"][str(nodes)][way][1]["load_s"] for nodes in counts]}
              for way, name in NAMES.items()]
    return {"name": "scaling-job", "lines": lines, "xlabel": "nodes, with four learners each",
            "ylabel": "loading of a second epoch, s (simulated)"}


def _sweep_figure(raw):
    counts = [int(nodes) for nodes in raw["sweeps"]]
    lines = [{"label": name, "look": LOOKS[way], "x": counts,
              "y": [raw["sweeps"][str(nodes)][way][1] for nodes in counts]}
             for way, name in NAMES.items() if way != LOCALITY]
    return {"name": "scaling-sweep", "lines": lines, "xlabel": f"nodes, with {clusters.JOBS} jobs each",
            "ylabel": "second epoch of each job, s (simulated)"}


def _moved_figure(raw):
    found = raw["moved"]["many"]
    sizes = [8, 16, 32, 64, 128, 256, 512]
    known = [int(local) for local in found]
    return {"name": "scaling-moved", "yscale": "linear", "xlabel": "local batch of a cache",
            "ylabel": "share of the batch that moves, %", "lines": [
                {"label": "1/sqrt(2 pi m)", "reference": True, "x": sizes,
                 "y": [100 * model.moved_closed(size) for size in sizes]},
                {"label": "simulated, with 95 % interval", "points": True, "look": 1, "x": known,
                 "y": [100 * found[str(local)]["mean"] for local in known],
                 "error": [100 * found[str(local)]["half"] for local in known]},
                {"label": "published", "points": True, "look": 2, "x": list(PUBLISHED),
                 "y": list(PUBLISHED.values())}]}


def _moved_rows(raw):
    """beta with its intervals, by the number of caches."""
    lines = ["| local batch | closed form | simulated, 256 caches | simulated, 1,024 caches | published [1] |",
             "|---|---|---|---|---|"]
    for local, one in raw["moved"]["many"].items():
        large = raw["moved"]["large"][local]
        lines.append(f"| {local} | {100 * one['closed']:.2f} % | "
                     f"{100 * one['mean']:.2f} +- {100 * one['half']:.2f} % | "
                     f"{100 * large['mean']:.2f} +- {100 * large['half']:.2f} % | "
                     f"{PUBLISHED[int(local)]:g} % |")
    return lines


def _amount(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _number_rows(raw):
    """(what, value, where from)"""
    numbers, recorded = raw["numbers"], raw["recorded"]
    cores = raw["measured"]["cores"]
    here = "measured by this benchmark, "
    yield "file", f"{numbers['file_bytes'] / 1e3:.0f} KB", recorded["file_bytes"][2]
    yield "making a sample", f"{1e3 * numbers['make_s']:.2f} ms of a core", recorded["make_s"][2]
    yield ("being given a shared sample", f"{1e3 * numbers['take_s']:.3f} ms of a core",
           recorded["take_s"][2])
    yield "a file that the node holds", f"{1e6 * numbers['local_s']:.0f} us", recorded["local_s"][2]
    yield ("Rc, Rb: a file from node to node", f"{1e6 * numbers['file_transfer_s']:.0f} us, "
           f"{numbers['file_bytes'] / numbers['file_transfer_s'] / 1e9:.1f} GB/s of each node",
           here + "CPU time of both ends of a loopback connection")
    yield ("a finished sample from node to node", f"{1e6 * numbers['sample_transfer_s']:.0f} us", "the same")
    yield ("R: one storage server", f"{_amount(numbers['storage_rate'])} files/s",
           here + f"CPU time of the slow storage of the tests for one file, on {cores} cores")
    yield ("R: the storage", f"{_amount(SUPPOSED.servers * numbers['storage_rate'])} files/s",
           f"supposed: {SUPPOSED.servers} such servers")
    yield ("V: a learner with an accelerator", f"{clusters.ACCELERATOR_RATE:,} samples/s",
           "published: ResNet-50, mixed precision, A100 [3]")
    yield ("V: a learner without", f"{1 / numbers['learner_s']:.1f} samples/s",
           here + "ResNet-18 on one core")
    yield "cores of a node", str(SUPPOSED.cores), "supposed"
    yield "files that a node asks for at once", str(SUPPOSED.workers), "supposed"
    yield ("a file of the storage, alone", f"{1e3 * SUPPOSED.delay_s:g} ms", "supposed")
    yield ("memory of a node for files", f"{SUPPOSED.memory_bytes >> 30} GiB", "supposed")
    yield ("batches loaded ahead", str(SUPPOSED.ahead), "supposed")
    yield "data set", f"{clusters.SAMPLES:,} files", "ImageNet-1K"
    yield ("learners of a node, local batch", f"{clusters.RANKS}, {clusters.LOCAL_BATCH}", "as in the paper [1]")


def _tables(raw):
    lines = ["| number | value | where from |", "|---|---|---|"]
    lines += [f"| {what} | {value} | {source} |" for what, value, source in _number_rows(raw)]
    many = list(raw["jobs"])[-1]
    lines += ["", f"Simulated, {int(many) * clusters.RANKS:,} learners on {many} nodes:", "",
              "| one distributed job | first epoch | second epoch | from the storage | from other nodes |",
              "|---|---|---|---|---|"]
    for way, name in NAMES.items():
        first, second = raw["jobs"][many][way]
        lines.append(f"| {name} | {first['seconds']:.2f} s | {second['seconds']:.2f} s | "
                     f"{100 * second['stored']:.1f} % | {100 * second['moved']:.1f} % |")
    lines += ["", *_moved_rows(raw), "", "| link of a node | cluster tier | with --locality | NoPFS |", "|---|---|---|---|"]
    lines += [f"| {8 * int(rate) / 1e9:.0f} Gbit/s | " + " | ".join(f"{one[way]:.2f} s" for way in one) + " |"
              for rate, one in raw["links"].items()]
    lines += ["", f"| sweep, {clusters.JOBS} jobs on each node | first epoch | later epochs |",
              "|---|---|---|"]
    lines += [f"| {NAMES[way]} | {first:,.0f} s | {later:,.0f} s |"
              for way, (first, later) in raw["sweeps"][many].items()]
    return lines


def render(root, result):
    """Replace what lies between the marks of docs/scaling.md, and draw its plots."""
    raw = result["raw"]
    page = os.path.join(root, "docs", "scaling.md")
    figures.draw(os.path.join(root, "docs", "plots"),
                 [_job_figure(raw), _sweep_figure(raw), _moved_figure(raw)])
    with open(page, encoding="utf-8") as file:
        head, _, rest = file.read().partition(BEGIN)
    tail = rest.partition(END)[2]
    machine = result["machine"]
    ground = (f"Numbers of {result['when'][:10]}, {machine['cpu']}, {machine['cores']} cores, load "
              f"{machine['load_before']} before; raw: `bench/results/scaling.json`.")
    with open(page, "w", encoding="utf-8") as file:
        file.write(head + "\n".join([BEGIN, "", *_tables(raw), "", ground, "", END]) + tail)
