#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Decode JPEG files on command with one library, and say what it cost.

    decode.py LIST {pillow,torchvision}     LIST: a file with one path per line
    stdin:  decode FIRST COUNT              stdout: one line of JSON

It knows nothing of tsshim.  cpu_ns is CPU time of this process in the calls a data loader
makes: for Pillow from opening the file to RGB pixels, for torchvision.io decoding alone.
"""
import json
import sys
import time
import zlib


def pillow_decoder():
    from PIL import Image

    def decode(path):
        start = time.process_time_ns()
        with Image.open(path) as image:
            pixels = image.convert("RGB")
        spent = time.process_time_ns() - start
        return spent, pixels.tobytes()

    return decode


def torchvision_decoder():
    import numpy
    import torch
    from torchvision.io import decode_jpeg

    torch.set_num_threads(1)

    def decode(path):
        with open(path, "rb") as file:
            data = torch.from_numpy(numpy.frombuffer(bytearray(file.read()), "uint8"))
        start = time.process_time_ns()
        pixels = decode_jpeg(data)
        spent = time.process_time_ns() - start
        return spent, memoryview(pixels.contiguous().numpy()).cast("B")

    return decode


def run(decode, paths):
    wall = time.monotonic_ns()
    cpu = size = check = 0
    for path in paths:
        spent, pixels = decode(path)
        cpu += spent
        size += len(pixels)
        check = zlib.crc32(pixels, check)
    return {"images": len(paths), "cpu_ns": cpu, "wall_ns": time.monotonic_ns() - wall,
            "bytes": size, "sum": f"{check:08x}"}


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        paths = file.read().splitlines()
    makers = {"pillow": pillow_decoder, "torchvision": torchvision_decoder}
    decode = makers[sys.argv[2]]()
    print("ready", flush=True)
    for line in sys.stdin:
        _, first, count = line.split()
        chosen = paths[int(first):int(first) + int(count)]
        print(json.dumps(run(decode, chosen)), flush=True)


if __name__ == "__main__":
    main()
