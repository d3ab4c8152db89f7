# SPDX-License-Identifier: MIT
"""private: what an aligned item costs more for each generator that its data set has of its own."""
import json

from tsbench.setup import row

ROUNDS = 5
BAR = 20  # microseconds


def measure(setup):
    rounds = 1 if setup.quick else ROUNDS
    group = setup.place.group("private")
    raw = []
    for _ in range(rounds):
        job = setup.place.start([setup.python, f"{setup.root}/bench/workloads/private.py"], group,
                                options=("--align",))
        raw.append(json.loads(job.answer("{")))
        setup.place.end([job])
        setup.place.forget(group)
    rows = [row("private", f"seeding {name}, CPU per item", BAR, [one[name] for one in raw], unit="us")
            for name in raw[0]]
    return {"title": "Generators of a data set's own", "rows": rows, "raw": raw,
            "settings": setup.settings(jobs=1, rounds=rounds)}
