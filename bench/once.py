# SPDX-License-Identifier: MIT
"""once: K jobs decode the same photographs in the same order; who really decodes?

The witness is a counting libjpeg (bench/counter) that shares nothing with tsshim.
"""
from tsbench import jobs as tsjobs
from tsbench import native
from tsbench.setup import ask_all, row

WARM_UP = 64
LABELS = {"c": "C", "pillow": "Pillow", "torchvision": "torchvision.io"}


def _attach(workers, first):
    """Let all jobs join and ask for each other's work; what happens here is not counted."""
    for _ in range(2):
        ask_all(workers, f"decode {first} {WARM_UP}")


def _measure_api(setup, api, listing, count, library):
    place = setup.place
    group = place.group(f"once-{api}")
    counts = native.Counts(place.directory, library)
    workers = [setup.start_decoder(api, listing, group, counts.environment(slot))
               for slot in range(setup.jobs)]
    _attach(workers, count)
    before = counts.read(setup.jobs)
    stats_before = tsjobs.pixels(place.stats(group))
    answers = ask_all(workers, f"decode 0 {count}")
    after = counts.read(setup.jobs)
    stats_after = tsjobs.pixels(place.stats(group))
    place.end(workers)
    place.forget(group)
    if len({answer["sum"] for answer in answers}) != 1:
        raise tsjobs.JobError(f"once: {api} jobs read different pixels")
    decoded = [b - a for a, b in zip(before, after)]
    produced = stats_after["produced"] - stats_before["produced"]
    if sum(decoded) < max(count, 0.99 * produced):
        raise tsjobs.JobError(f"once: {api}: the witness saw {sum(decoded)} decodes of {count} "
                              f"photographs, tsrun admits {produced}: it was bypassed")
    return {"api": api, "decoded": decoded, "images": count,
            "wall_seconds": max(answer["wall_ns"] for answer in answers) / 1e9,
            "own_account": {"produced": produced,
                            "shared": stats_after["shared"] - stats_before["shared"]}}


def measure(setup):
    count = setup.data_images()
    _, paths = setup.streams(count + WARM_UP)
    listing = setup.list_of(paths)
    library = native.counter(setup.root, setup.native)
    raw, rows = [], []
    for api, label in LABELS.items():
        found = _measure_api(setup, api, listing, count, library)
        raw.append(found)
        total = sum(found["decoded"])
        rows.append(row(f"once-{api}", f"real decodes / photographs, {label}", 1.02,
                        [total / count]))
        rows.append(row(f"share-{api}", f"largest share of one job, {label}", 0.5,
                        [part / max(total, 1) for part in found["decoded"]],
                        value=max(found["decoded"]) / max(total, 1)))
    return {"title": "Once", "rows": rows, "raw": raw,
            "settings": setup.settings(jobs=setup.jobs, images=count)}
