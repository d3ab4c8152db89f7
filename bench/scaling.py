# SPDX-License-Identifier: MIT
"""scaling: what becomes of loading on many nodes? A model and simulations, no cluster.

The equations of Yang and Cong (arXiv 1910.01196), held against what they published; the share of
a batch that moves when ranks take what is near, by the real algorithm; and up to 1,024 learners
on 256 nodes, simulated with the numbers of this one.  What is called simulated was not measured.
"""
import statistics

import read
from tsbench import scaling_cluster as clusters
from tsbench import scaling_measure, scaling_moved, scaling_page
from tsbench import scaling_model as model
from tsbench.scaling_cluster import CLUSTER, LOCALITY, NAMES, NODE, NOPFS, PLAIN
from tsbench.setup import row, without_bar

MANY = clusters.NODES[-1]
CACHES, BATCHES = 256, 8  # of each seed
SEEDS = (1, 2, 3)

# Yang and Cong: MuMMI, loading only, how many times as fast at so many nodes.
MUMMI = {16: 18, 32: 35, 64: 70, 128: 120}

# ResNet-50 on ImageNet is 1.9 times as fast on 64 nodes: so that is where R/V lies.
KNEE_PUBLISHED = 64 / 1.9


def _off(value, expected):
    """By how many percent @value is away from @expected."""
    return 100 * abs(value / expected - 1)


def _numbers(recorded, measured):
    """{name: value}: of everything measured here, the one number that the simulations use."""
    numbers = {name: found[0] for name, found in recorded.items()}
    for name in ("learner_s", "file_transfer_s", "sample_transfer_s", "storage_file_s"):
        numbers[name] = statistics.median(measured[name])
    numbers["storage_rate"] = measured["cores"] / numbers["storage_file_s"]
    return numbers


def _published():
    """How near the equations come to what they were published with."""
    at_16 = model.training_s(1, 16, 1) / model.epoch_s(1, 16, 1, KNEE_PUBLISHED)
    rows = [row("resnet-16", "equation (6), ResNet-50 on 16 nodes: off what was published by", 5,
                [_off(at_16, 1)], "%")]
    return rows + [
        row(f"mummi-{nodes}", f"equations (7), (8), MuMMI on {nodes} nodes: the same",
            5 if nodes < 128 else None, [_off(MUMMI[16] / 16 * nodes, MUMMI[nodes])], "%")
        for nodes in (32, 64, 128)]


def _moved(quick):
    """Rows of beta, and what was drawn."""
    found = scaling_moved.measure(32 if quick else CACHES, 2 if quick else BATCHES)
    rows = [row(f"beta-{local}", f"beta, local batch {local}, simulated: off 1/sqrt(2 pi m) by", 5,
                [_off(statistics.mean(betas), one["closed"]) for betas in one["seeds"]], "%",
                value=_off(one["mean"], one["closed"])) for local, one in found.items()]
    learners = 128 if quick else clusters.RANKS * MANY
    large = scaling_moved.measure(learners, 2, SEEDS[:2])
    rows += [row(f"beta-{local}-large", f"beta, {learners} learners, local batch {local}, simulated "
                 f"(published {scaling_moved.PUBLISHED[local]:g})", None,
                 [100 * statistics.mean(betas) for betas in one["seeds"]], "%",
                 value=100 * one["mean"]) for local, one in large.items()]
    return rows, {"many": found, "large": large}


def _contention(curves):
    """How near the law of shared storage comes to what was measured here.

    Of each number of readers the best round counts: others on the machine only slow it down.
    """
    best = {many: max(one[many] for one in curves) for many in curves[0]}
    delay, limit = model.fit_storage(best)
    off = {many: _off(model.storage_rate(many, delay, limit), rate) for many, rate in best.items()}
    return [row("contention", f"storage that 1 to {max(best)} ask: the law, off the measured files/s by",
                15, [max(off.values())], "%")], {"delay_s": delay, "limit": limit, "off": off}


def _against_equations(one, epochs):
    """The simulation where the equations hold as well."""
    far = epochs[NOPFS][1]["moved"] + epochs[NOPFS][1]["stored"]
    cached = model.cached_io_s(one.samples, one.nodes, one.storage_rate, 1 / one.transfer_s, 1)
    cached += one.samples / one.nodes * one.make_s / one.cores
    return [row("sim-plain", f"simulated epoch on {one.nodes} nodes without us: off equation (4) by",
                2, [_off(epochs[PLAIN][1]["seconds"], clusters.by_equation(one))], "%"),
            row("sim-remote", f"simulated share of remote files on {one.nodes} nodes: off (p-1)/p by",
                2, [_off(far, (one.nodes - 1) / one.nodes)], "%"),
            without_bar("sim-cached", f"simulated loading on {one.nodes} nodes, cluster tier / "
                        "equations (4), (7)", [epochs[CLUSTER][1]["load_s"] / cached])]


def _outcomes(nodes, seeds, sweeps):
    """What the simulations say; no bars, for nothing was promised and nothing measured."""
    rows = [without_bar(f"sim-{way}", f"simulated, one job on {nodes} nodes, second epoch: speed "
                        f"{NAMES[way]} / without us",
                        [one[PLAIN][1]["seconds"] / one[way][1]["seconds"] for one in seeds],
                        below=False) for way in (NODE, CLUSTER, LOCALITY, NOPFS)]
    for at, name in enumerate(("first", "second")):
        found = {way: epochs[at] for way, epochs in sweeps[nodes].items()}
        rows += [without_bar(f"sim-sweep-{way}-{name}", f"simulated sweep on {nodes} nodes, {name} "
                             f"epoch: speed {NAMES[way]} / without us",
                             [found[PLAIN] / found[way]], below=False)
                 for way in (NODE, CLUSTER, NOPFS)]
    return rows


def _notes(numbers, one):
    knee = model.knee_nodes(one.storage_rate, clusters.node_rate(one))
    slow = clusters.RANKS / numbers["learner_s"]
    pays = model.across_pays_below(numbers["make_s"], scaling_measure.SAMPLE_BYTES,
                                   scaling_measure.SAMPLE_BYTES / numbers["sample_transfer_s"],
                                   numbers["take_s"])
    return [
        "Rows called simulated come out of a model; no cluster was there. Its numbers, and which of "
        "them are measured, published or supposed: docs/scaling.md.",
        "Equations are told one published point (64 nodes of ResNet-50, 16 of MuMMI) and compared with "
        "the others. beta is drawn by Algorithm 1 from "
        f"{len(scaling_moved.SEEDS)} seeds, {BATCHES} batches each, for {CACHES} caches; at "
        f"{clusters.RANKS * MANY} learners a batch is a large part of ImageNet and draws none twice, which "
        "makes beta smaller: by that the published numbers differ from the closed form.",
        f"The knee R/V of the simulated cluster is at {knee:.1f} nodes; with learners as measured here, "
        f"without a GPU ({slow / clusters.RANKS:.1f} samples/s each, one core), at "
        f"{model.knee_nodes(one.storage_rate, slow):.0f} nodes.",
        f"A finished sample of {scaling_measure.SAMPLE_BYTES // 1000} KB comes from another process by "
        f"loopback in {1e3 * numbers['sample_transfer_s']:.2f} ms and takes {1e3 * numbers['make_s']:.2f} ms to "
        f"make: over such a link fetching is faster on nodes of fewer than {pays:.1f} cores for each."]


def measure(setup):
    data = read.Storage(setup, 24 if setup.quick else read.FILES)
    recorded = scaling_measure.recorded(scaling_page.results_directory(setup))
    measured = scaling_measure.measure(setup, data)
    numbers = _numbers(recorded, measured)
    counts = (1, 4, 16) if setup.quick else clusters.NODES
    many = counts[-1]
    moved_rows, moved = _moved(setup.quick)
    law_rows, law = _contention(measured["curve"])
    jobs = clusters.job_of_nodes(numbers, counts)
    more = [clusters.job_epochs(numbers, many, seed) for seed in SEEDS[1:] if not setup.quick]
    sweeps = clusters.sweep_of_nodes(numbers, counts)
    one = clusters.cluster(numbers, many)
    rows = [*_published(), *moved_rows, *law_rows, *_against_equations(one, jobs[many]),
            *_outcomes(many, [jobs[many], *more], sweeps)]
    raw = {"numbers": numbers, "recorded": recorded, "measured": measured, "law": law,
           "moved": moved, "jobs": jobs, "more": more, "sweeps": sweeps,
           "links": clusters.job_of_links(numbers, many),
           "training_s": {nodes: model.training_s(one.samples, nodes, clusters.node_rate(one))
                          for nodes in counts}}
    return {"title": "Many nodes, simulated", "rows": rows, "raw": scaling_page.as_json(raw),
            "notes": _notes(numbers, one),
            "settings": setup.settings(seeds=list(SEEDS), beta_seeds=list(scaling_moved.SEEDS),
                                       supposed=clusters.SUPPOSED._asdict())}


def render(root, result):
    """docs/scaling.md and its plots, from the recorded @result."""
    scaling_page.render(root, result)
