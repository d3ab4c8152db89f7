# SPDX-License-Identifier: MIT
"""unrelated: nanoseconds added to calls that we export but have nothing to do with."""
import json

from tsbench import native
from tsbench.setup import row

ROUNDS = 21

CALLS = {
    "jpeg_abort": "jpeg_abort() of a compressor",
    "jpeg_destroy": "jpeg_destroy() of a compressor",
    "open": "open() while no sample is made",
    "fopen": "fopen() while no sample is made",
}


def _once(setup, program, group):
    job = setup.place.start([program], group)
    setup.place.end([job])
    return json.loads(job.lines[0])


def measure(setup):
    program = native.program(setup.root, setup.native, "unrelated")
    group = setup.place.group("unrelated")
    raw = []
    for number in range(3 if setup.quick else ROUNDS):
        pair = {}
        for kind in ("without", "with") if number % 2 == 0 else ("with", "without"):
            pair[kind] = _once(setup, program, group if kind == "with" else None)
        raw.append(pair)
    rows = [row(f"unrelated-{call}", f"added to {what}", 30,
                [pair["with"][call] - pair["without"][call] for pair in raw], unit="ns")
            for call, what in CALLS.items()]
    return {"title": "Unrelated calls", "rows": rows, "raw": raw, "settings": setup.settings()}
