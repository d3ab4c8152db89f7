# SPDX-License-Identifier: MIT
"""price: CPU time of a hit divided by CPU time of the decode that it replaces.

Block by block: a job alone decodes it, a producer decodes it, a consumer takes it.  Misses
of the consumer are not taken out; their share is checked.
"""
from tsbench import jobs as tsjobs
from tsbench.setup import blocks, row

CASES = (("c", "hit / decode, C", 0.10), ("torchvision", "hit / decode, torchvision.io", 0.10),
         ("pillow", 'hit / whole Image.open(f).convert("RGB"), Pillow', 0.25))

# A block in which the consumer decoded more than this itself says nothing of hits.
MISSES = 0.02


def _warm_up(setup, producer, consumer, plain, length):
    """Until the consumer's demand has switched publishing on."""
    for _ in range(2):
        plain.ask(f"decode 0 {length}")
        producer.ask(f"decode 0 {length}")
        consumer.ask(f"decode 0 {length}")


def _measure_api(setup, api, listing, count):
    place, length = setup.place, setup.block_images()
    group = place.group(f"price-{api}")
    options = ("--verify", "0")
    plain = setup.start_decoder(api, listing)
    producer = setup.start_decoder(api, listing, group, options=options)
    consumer = setup.start_decoder(api, listing, group, options=options)
    _warm_up(setup, producer, consumer, plain, length)
    found = []
    for number, (first, many) in enumerate(blocks(count, length)[1:]):
        text = f"decode {first} {many}"
        alone = plain.ask(text) if number % 2 == 0 else None
        made = producer.ask(text)
        before = tsjobs.pixels(place.stats(group))["shared"]
        taken = consumer.ask(text)
        hits = tsjobs.pixels(place.stats(group))["shared"] - before
        alone = alone or plain.ask(text)
        if not alone["sum"] == made["sum"] == taken["sum"]:
            raise tsjobs.JobError(f"price: {api} read different pixels in block {number}")
        found.append({"images": many, "hits": hits, "decode_ns": alone["cpu_ns"] / many,
                      "produce_ns": made["cpu_ns"] / many, "hit_ns": taken["cpu_ns"] / many})
    place.end([plain, producer, consumer])
    place.forget(group)
    return found


def measure(setup):
    count = setup.data_images()
    _, paths = setup.streams(count)
    listing = setup.list_of(paths)
    raw, rows = {}, []
    for api, label, bar in CASES:
        found = _measure_api(setup, api, listing, count)
        raw[api] = found
        missed = 1 - sum(f["hits"] for f in found) / sum(f["images"] for f in found)
        if missed > MISSES:
            raise tsjobs.JobError(f"price: {api}: {100 * missed:.1f} % of the consumer's "
                                  "photographs were not taken from the ring")
        rows.append(row(f"price-{api}", label, bar,
                        [f["hit_ns"] / f["decode_ns"] for f in found]))
    return {"title": "Price of a hit", "rows": rows, "raw": raw,
            "settings": setup.settings(jobs=2, images=count, block=setup.block_images(),
                                       verify="0")}
