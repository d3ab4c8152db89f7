# SPDX-License-Identifier: MIT
"""locality: what nodes get from each other when ranks take what is near (tsrun --locality).

8 processes of one job are ranks of torch.distributed on this machine, which are told that they are on 4
nodes.  Which samples each is given is what is measured, without and with --locality; the bytes that
would go between nodes are counted from that and the sizes of the photographs, each node keeping what
it has read as long as it has room.  No byte goes over a network.
"""
import json
import os

from tsbench.jobs import JobError
from tsbench.scaling_model import moved_closed
from tsbench.setup import row, without_bar

RANKS, NODES = 8, 4
STEPS, EPOCHS = 32, 4
LOCAL_BATCHES = (16, 32, 64)
ROOM = .5  # of a node: part of the data
POINTS = 3  # percentage points beyond the closed form


def _run(setup, size, locality):
    """([epoch][step][rank] the samples of a batch, CPU seconds of each rank for an epoch's indices)."""
    place = setup.place
    group = place.group(f"locality-{size}") if locality else None
    name = os.path.join(place.directory, f"locality-{size}-{int(locality)}")
    script = os.path.join(setup.root, "bench", "workloads", "locality.py")
    ranks = [place.start(
        [setup.python, script, str(rank), str(RANKS), name + "-meeting", str(STEPS * size * RANKS), str(size),
         str(2 if setup.quick else EPOCHS), f"{name}-{rank}"], group,
        {"GROUP_RANK": str(rank * NODES // RANKS), "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1",
         "TSSHIM_QUIET": "1"},
        options=("--locality",)) for rank in range(RANKS)]
    place.end(ranks)
    found = []
    for rank in range(RANKS):
        with open(f"{name}-{rank}", encoding="ascii") as file:
            found.append(json.load(file))
    epochs = [list(zip(*(found[rank][epoch][0] for rank in range(RANKS)))) for epoch in range(len(found[0]))]
    return epochs, [[one[1] for one in rank] for rank in found]


def _check(ours, plain):
    """Each step has the samples that it has without us, and each rank as many."""
    for one, other in zip(ours, plain):
        for step, before in zip(one, other):
            if [len(batch) for batch in step] != [len(batch) for batch in before] or \
                    sorted(sum(step, [])) != sorted(sum(before, [])):
                raise JobError("a step has other samples than it has without us")
    if ours[0] != plain[0] or ours[1] == plain[1]:
        raise JobError("the first epoch was changed, or the second was not")


def _moved(epochs, bytes_of):
    """[bytes that come from other nodes] of each epoch."""
    room = int(ROOM * len({sample for step in epochs[0] for batch in step for sample in batch}))
    held, moved = [set() for _ in range(NODES)], []
    for epoch in epochs:
        moved.append(0)
        for step in epoch:
            for rank, batch in enumerate(step):
                node = rank * NODES // RANKS
                for sample in batch:
                    if sample in held[node]:
                        continue
                    moved[-1] += bytes_of(sample) * any(sample in other for other in held)
                    if len(held[node]) < room:
                        held[node].add(sample)
    return moved


def measure(setup):
    sizes = [os.path.getsize(path) for path in setup.photos]
    rows, raw = [], {}
    for size in LOCAL_BATCHES[:1] if setup.quick else LOCAL_BATCHES:
        (plain, plain_s), (ours, ours_s) = (_run(setup, size, locality) for locality in (False, True))
        _check(ours, plain)
        moved, moved_plain = (_moved(each, lambda sample: sizes[sample % len(sizes)]) for each in (ours, plain))
        shares = [100 * one / other for one, other in zip(moved[1:], moved_plain[1:])]
        bar = round(100 * moved_closed(size) + POINTS, 2)
        rows.append(row(f"moved-{size}", f"{RANKS} ranks on {NODES} nodes, local batch {size}: bytes from other "
                        "nodes / without --locality, epoch by epoch", bar, shares, "%", value=max(shares)))
        steps = STEPS * RANKS * size
        cost = [1e6 * (with_us[epoch] - without[epoch]) / steps
                for with_us, without in zip(ours_s, plain_s) for epoch in range(1, len(with_us))]
        rows.append(without_bar(f"cost-{size}", "the same: CPU time in each rank for a sample of the global batch, us", cost))
        raw[size] = {"moved": moved, "moved_plain": moved_plain, "closed": moved_closed(size)}
    return {"title": "Taking what is near", "rows": rows, "raw": raw,
            "notes": ["Ranks are processes of this machine that are told different nodes, and no byte goes over a "
                      "network: what is counted is who is given which sample. The bar is 1/sqrt(2 pi m), m the local "
                      f"batch, and {POINTS} points; ranks of one node share what it holds, so less than that moves. Each "
                      f"node has room for {ROOM:.0%} of the data and keeps what it reads first."],
            "settings": setup.settings(ranks=RANKS, nodes=NODES, steps=STEPS, local_batches=list(LOCAL_BATCHES))}
