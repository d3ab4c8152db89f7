# SPDX-License-Identifier: MIT
"""alone: what a single job pays for a library that has nobody to share with."""
from tsbench import jobs as tsjobs
from tsbench.setup import blocks, row

LABELS = {"c": "C", "torchvision": "torchvision.io", "pillow": "Pillow"}


def _measure_api(setup, api, listing, count):
    place, length = setup.place, setup.block_images()
    group = place.group(f"alone-{api}")
    plain = setup.start_decoder(api, listing)
    shimmed = setup.start_decoder(api, listing, group)
    for worker in (plain, shimmed):
        worker.ask(f"decode 0 {length}")
    found = []
    for number, (first, many) in enumerate(blocks(count, length)):
        text = f"decode {first} {many}"
        if number % 2 == 0:
            without, with_it = plain.ask(text), shimmed.ask(text)
        else:
            with_it, without = shimmed.ask(text), plain.ask(text)
        if without["sum"] != with_it["sum"]:
            raise tsjobs.JobError(f"alone: {api} read different pixels in block {number}")
        found.append({"images": many, "without_ns": without["cpu_ns"] / many,
                      "with_ns": with_it["cpu_ns"] / many})
    place.end([plain, shimmed])
    place.forget(group)
    return found


def measure(setup):
    count = setup.data_images()
    _, paths = setup.streams(count)
    listing = setup.list_of(paths)
    raw, rows = {}, []
    for api, label in LABELS.items():
        raw[api] = _measure_api(setup, api, listing, count)
        rows.append(row(f"alone-{api}", f"K=1, CPU time with / without, {label}", 1.02,
                        [f["with_ns"] / f["without_ns"] for f in raw[api]]))
    return {"title": "Alone", "rows": rows, "raw": raw,
            "settings": setup.settings(jobs=1, images=count, block=setup.block_images())}
