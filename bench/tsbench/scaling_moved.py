# SPDX-License-Identifier: MIT
"""How much of a batch moves when ranks take what their nodes hold: beta, drawn at random."""
import math
import random
import statistics

from . import locality
from .scaling_model import moved_closed

SAMPLES = 1_281_167
PUBLISHED = {32: 6.9, 64: 4.8, 128: 3.4}  # %, Yang and Cong, their simulation
SEEDS = (1, 2, 3, 4, 5)


def draw(local_batch, caches, batches, seed, samples=SAMPLES):
    """beta of each of @batches batches, by Algorithm 1 itself.

    Every cache holds an equal part of the samples; a batch draws none twice.  The samples lie in
    order, for a batch is drawn anywhere.
    """
    choose = random.Random(f"{seed} {local_batch} {caches}")
    table = [(cache,) for cache in range(caches)]
    ranks = list(range(caches))
    found = []
    for _ in range(batches):
        batch = choose.sample(range(samples), local_batch * caches)
        answer = locality.reassign(batch, lambda sample: table[sample * caches // samples], ranks)
        found.append(locality.moved_share(answer))
    return found


def interval(values):
    """(mean, half of the interval of 95 %) of independent draws; normal, for they are many."""
    half = 1.96 * statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0
    return statistics.mean(values), half


def measure(caches, batches, seeds=SEEDS, local_batches=tuple(PUBLISHED)):
    """{local batch: {"seeds": [betas of one seed], "mean", "half", "closed"}}"""
    found = {}
    for local_batch in local_batches:
        each = [draw(local_batch, caches, batches, seed) for seed in seeds]
        mean, half = interval([beta for one in each for beta in one])
        found[local_batch] = {"seeds": each, "mean": mean, "half": half,
                              "closed": moved_closed(local_batch)}
    return found
