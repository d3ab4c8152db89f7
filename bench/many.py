# SPDX-License-Identifier: MIT
"""many: does a hit cost more CPU time when more processes share?

For each K a group of its own: one producer, K - 1 consumers that take the block at once.
"""
import statistics

from tsbench import jobs as tsjobs
from tsbench.setup import ask_all, blocks, row

PROCESSES = (1, 2, 4, 8, 16, 32)
OPTIONS = ("--verify", "0")


def _start(setup, listing, many):
    if many == 1:
        return None, [setup.start_decoder("c", listing)]
    group = setup.place.group(f"many-{many}")
    return group, [setup.start_decoder("c", listing, group, options=OPTIONS)
                   for _ in range(many)]


def _one_block(setup, group, workers, text):
    """CPU time of a hit (of a decode when there is one process), and the share of hits."""
    producer, consumers = workers[0], workers[1:]
    made = producer.ask(text)
    if not consumers:
        return made["cpu_ns"] / made["images"], None
    before = tsjobs.pixels(setup.place.stats(group))["shared"]
    answers = ask_all(consumers, text)
    hits = tsjobs.pixels(setup.place.stats(group))["shared"] - before
    if any(answer["sum"] != made["sum"] for answer in answers):
        raise tsjobs.JobError("many: different pixels")
    images = sum(answer["images"] for answer in answers)
    return sum(answer["cpu_ns"] for answer in answers) / images, hits / images


def measure(setup):
    processes = (1, 2, 4) if setup.quick else PROCESSES
    count, length = setup.data_images(), setup.block_images()
    _, paths = setup.streams(count)
    listing = setup.list_of(paths)
    groups = {many: _start(setup, listing, many) for many in processes}
    raw = {many: [] for many in processes}
    for number, (first, size) in enumerate([(0, length)] * 2 + blocks(count, length)[1:]):
        for many in processes if number % 2 == 0 else reversed(processes):
            cost, hits = _one_block(setup, *groups[many], f"decode {first} {size}")
            if number >= 2:
                raw[many].append({"cpu_ns": cost, "hits": hits})
    for group, workers in groups.values():
        setup.place.end(workers)
        if group:
            setup.place.forget(group)
    last = processes[-1]
    for many in processes[1:]:
        if sum(sample["hits"] for sample in raw[many]) < 0.98 * len(raw[many]):
            raise tsjobs.JobError(f"many: K={many}: too few photographs came from the ring")
    ratios = [b["cpu_ns"] / a["cpu_ns"] for a, b in zip(raw[2], raw[last])]
    rows = [row("many", f"CPU time per hit, K={last} / K=2", 1.5, ratios)]
    return {"title": "Many processes", "rows": rows,
            "raw": {str(many): samples for many, samples in raw.items()},
            "curve": {"x": list(processes[1:]), "xlabel": "processes that share",
                      "y": [statistics.median(s["cpu_ns"] for s in raw[many]) / 1000
                            for many in processes[1:]],
                      "ylabel": "CPU time per hit, us"},
            "settings": setup.settings(processes=list(processes), images=count, block=length,
                                       verify="0")}
