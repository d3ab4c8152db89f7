# SPDX-License-Identifier: MIT
"""Make the JPEG corpus of the end-to-end tests: deterministic, synthetic, no outside data.

usage: corpus.py DIRECTORY      (kept when DIRECTORY already holds this version of it)

Names say what is special.  Names that begin with "s_" can be shared (clean streams that take
long enough to decode); the tests insist that sharing happened for some of them.
"""

import fcntl
import hashlib
import io
import os
import struct
import subprocess
import sys

import numpy
from PIL import Image

VERSION = hashlib.sha256(open(__file__, "rb").read()).hexdigest()
CHUNK = 65536  # Pillow's ImageFile.MAXBLOCK
EOI = b"\xff\xd9"


def photograph(width, height, seed, roughness=10.0):
    """Something like a photograph: gradients, discs with edges, sensor noise."""
    random = numpy.random.RandomState(seed)
    y, x = numpy.mgrid[0:height, 0:width].astype(numpy.float32)
    image = numpy.empty((height, width, 3), numpy.float32)
    for channel in range(3):
        a, b, c = random.uniform(0.5, 3, 3)
        image[..., channel] = (110 + 60 * numpy.sin(a * x / width * 3 + b)
                               + 50 * numpy.cos(c * y / height * 3))
    for _ in range(12):
        centre_x, centre_y = random.uniform(0, width), random.uniform(0, height)
        radius = random.uniform(0.03, 0.25) * max(width, height)
        inside = (x - centre_x) ** 2 + (y - centre_y) ** 2 < radius ** 2
        image[inside] = 0.4 * image[inside] + random.uniform(0, 150, 3)
    image += random.normal(0, roughness, image.shape)
    return Image.fromarray(numpy.clip(image, 0, 255).astype(numpy.uint8))


def jpeg(image, **options):
    """Encode with Pillow."""
    out = io.BytesIO()
    image.save(out, "JPEG", **options)
    return out.getvalue()


def tool(command, data):
    """Pipe through one of the libjpeg-turbo programs."""
    return subprocess.run(command, input=data, stdout=subprocess.PIPE, check=True).stdout


def cjpeg(image, *options):
    """Encode with cjpeg, which can do what Pillow cannot (arithmetic, 4:4:0, ...)."""
    out = io.BytesIO()
    image.save(out, "PPM")
    return tool(["cjpeg", *options], out.getvalue())


def segment(marker, body):
    """One marker segment."""
    return b"\xff" + bytes([marker]) + struct.pack(">H", len(body) + 2) + body


def after_soi(data, extra):
    """@data with @extra between SOI and the rest."""
    assert data[:2] == b"\xff\xd8"
    return data[:2] + extra + data[2:]


def padded_to(data, size):
    """@data made exactly @size bytes long by comments in its header."""
    missing = size - len(data)
    assert missing >= 4, (missing, "the picture is too large already")
    extra = b""
    while missing:
        take = min(missing, 65537)
        if 0 < missing - take < 4:
            take -= 4
        extra += segment(0xfe, b"p" * (take - 4))
        missing -= take
    return after_soi(data, extra)


def segments(data):
    """Yield (marker, start, end) of the segments in front of the scan data."""
    at = 2
    while at < len(data):
        marker = data[at + 1]
        length = struct.unpack(">H", data[at + 2:at + 4])[0]
        yield marker, at, at + 2 + length
        if marker == 0xda:
            return
        at += 2 + length


def without(data, unwanted):
    """@data without the segments whose marker is @unwanted (MJPEG leaves out its DHT)."""
    out, last = data[:2], 2
    for marker, start, end in segments(data):
        if marker != unwanted:
            out += data[start:end]
        last = end
    return out + data[last:]


def exif(orientation, bulk=0):
    """An APP1 segment with an orientation, and @bulk bytes of something."""
    entry = struct.pack(">HHIHH", 0x0112, 3, 1, orientation, 0)
    return segment(0xe1, b"Exif\0\0MM\0*\0\0\0\x08\0\x01" + entry + bytes(4) + b"e" * bulk)


def icc(bulk):
    """A colour profile (of nonsense) of @bulk bytes in as many APP2 segments as it needs."""
    profile = bytes(i * 7 & 0xff for i in range(bulk))
    parts = [profile[i:i + 65000] for i in range(0, bulk, 65000)]
    return b"".join(segment(0xe2, b"ICC_PROFILE\0" + bytes([i + 1, len(parts)]) + part)
                    for i, part in enumerate(parts))


def clean_streams():
    """Undamaged pictures of every kind that a trainer may meet."""
    photo = photograph(500, 375, 1)
    large = photograph(1600, 1200, 2, roughness=12)
    gray = photo.convert("L")
    base = jpeg(photo, quality=90)
    yield "s_baseline", base
    for quality in (10, 75, 100):
        yield "s_quality%d" % quality, jpeg(photo, quality=quality)
    yield "s_progressive", jpeg(photo, quality=90, progressive=True)
    yield "s_progressive_large", jpeg(large, quality=92, progressive=True)
    yield "s_optimised", jpeg(photo, quality=90, optimize=True)
    yield "s_gray", jpeg(gray, quality=90)
    yield "s_arithmetic", cjpeg(photo, "-arithmetic", "-quality", "90")
    for name, sample in (("444", "1x1"), ("422", "2x1"), ("420", "2x2"), ("411", "4x1"),
                         ("440", "1x2"), ("441", "1x4")):
        yield "s_" + name, cjpeg(photo, "-sample", sample, "-quality", "88")
        yield "s_odd_" + name, cjpeg(photograph(331, 257, 3), "-sample", sample)
    yield "s_rgb_inside", cjpeg(photo, "-rgb", "-quality", "90")
    yield "s_restart", cjpeg(photo, "-restart", "1", "-quality", "90")
    yield "s_cmyk", jpeg(photo.convert("CMYK"), quality=90)
    yield "s_ycck", ycck(photo)
    for orientation in (1, 3, 6, 8):
        yield "s_exif%d" % orientation, after_soi(base, exif(orientation))
    yield "s_header_over_64k", after_soi(base, exif(6, 60000) + icc(150000))
    yield "s_large", jpeg(large, quality=95)
    yield "s_over_640k", jpeg(photograph(2200, 1600, 4, roughness=25), quality=96)
    yield "s_exactly_64k", padded_to(jpeg(photo, quality=60), CHUNK)
    yield "s_exactly_128k", padded_to(base, 2 * CHUNK)
    yield "s_wide", jpeg(photograph(10000, 40, 5), quality=85)
    yield "tiny_1x1", jpeg(photograph(1, 1, 6))
    yield "tiny_7x3", jpeg(photograph(7, 3, 7))
    yield "small_64", jpeg(photograph(64, 64, 8))
    first = jpeg(large, quality=93)
    yield "s_prefix_a", first
    yield "prefix_b", first[:-4000] + jpeg(photograph(1600, 1200, 9), quality=93)[-4000:]
    yield "s_prefix_c", same_length_twin(first)
    # Two pictures in one file, as cameras write them.
    yield "s_mpo", base + jpeg(photograph(500, 375, 10), quality=80)


def ycck(photo):
    """An Adobe YCCK picture: Pillow writes CMYK with transform 0 or 2; cjpeg cannot."""
    data = bytearray(jpeg(photo.convert("CMYK"), quality=90))
    at = data.find(b"Adobe\0")
    assert at > 0
    data[at + 11] = 2
    return bytes(data)


def same_length_twin(data):
    """Another valid stream of the same length: one bit far behind the first 64 KiB differs."""
    data = bytearray(data)
    for at in range(len(data) - 3000, len(data) - 2000):
        if 0xff not in (data[at - 1], data[at], data[at] ^ 1):
            data[at] ^= 1
            return bytes(data)
    raise AssertionError("no byte to change")


def damaged_streams():
    """What is broken must break in the same words."""
    photo = photograph(500, 375, 1)
    base = jpeg(photo, quality=90)
    large = jpeg(photograph(1600, 1200, 2, roughness=12), quality=95)
    restart = cjpeg(photo, "-restart", "1", "-quality", "90")
    progressive = jpeg(photo, quality=90, progressive=True)
    for cut in (1, 2, 3, 20, 300, 700, len(base) // 2, len(base) - 3, len(base) - 1):
        yield "cut_base_%d" % cut, base[:cut]
    for cut in (CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 2 * CHUNK + 17, len(large) - 100):
        yield "cut_large_%d" % cut, large[:cut]
    yield "cut_progressive", progressive[:len(progressive) * 2 // 3]
    yield "missing_eoi", base[:-2]
    yield "missing_eoi_large", large[:-2]
    random = numpy.random.RandomState(11)
    for name, data in (("base", base), ("large", large), ("restart", restart),
                       ("progressive", progressive)):
        for turn in range(3):
            yield "corrupt_%s_%d" % (name, turn), corrupted(data, random, 1 + 4 * turn)
    yield "empty", b""
    yield "not_a_jpeg", b"This is not a picture at all.\n" * 40
    yield "only_soi_eoi", b"\xff\xd8" + EOI
    yield "garbage_behind", base + b"garbage" * 100
    yield "garbage_behind_large", large + bytes(range(256)) * 300
    yield "mjpeg_without_dht", without(base, 0xc4)
    yield "without_dqt", without(base, 0xdb)
    yield "garbage_before_dqt", after_soi(base, b"\0\1\2\3")


def corrupted(data, random, count):
    """@data with @count bytes of its second half changed, so that headers stay readable."""
    data = bytearray(data)
    for _ in range(count):
        data[random.randint(len(data) // 2, len(data) - 2)] = random.randint(0, 255)
    return bytes(data)


def is_made(stamp):
    """Whether the corpus beside @stamp is complete, and of this version."""
    if not os.path.exists(stamp):
        return False
    with open(stamp) as file:
        return file.read() == VERSION


def write(directory, stamp):
    """Replace what @directory holds; @stamp says at the end that it is complete."""
    for old in os.listdir(directory):
        os.unlink(os.path.join(directory, old))
    for stream in (clean_streams(), damaged_streams()):
        for name, data in stream:
            with open(os.path.join(directory, name + ".jpg"), "wb") as file:
                file.write(data)
    with open(stamp, "w") as file:
        file.write(VERSION)


def make(directory):
    """Write the corpus into @directory and return the sorted paths of its pictures.  Of several
    processes at once the first does it, and the others wait."""
    stamp = os.path.join(directory, "VERSION")
    if not is_made(stamp):
        os.makedirs(directory, exist_ok=True)
        lock = os.open(directory, os.O_RDONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not is_made(stamp):
                write(directory, stamp)
        finally:
            os.close(lock)
    return sorted(os.path.join(directory, name) for name in os.listdir(directory)
                  if name.endswith(".jpg"))


if __name__ == "__main__":
    print("\n".join(make(sys.argv[1])))
