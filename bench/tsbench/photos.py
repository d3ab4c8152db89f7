# SPDX-License-Identifier: MIT
"""Photographs to measure with: made up, or taken from a directory and multiplied."""
import os
import shutil
import struct

SUFFIXES = (".jpg", ".jpeg", ".jpe")
CLASSES = 10

# Common sizes of ImageNet's photographs, landscape and portrait.
SIZES = ((500, 375), (375, 500), (500, 333), (333, 500), (500, 400), (500, 375))

# A made photograph is encoded at the quality that brings it closest to this.
TARGET_BYTES = 110_000


def find(directory):
    """All JPEG files below @directory, sorted, as paths."""
    found = []
    for where, _, names in os.walk(directory, followlinks=True):
        found += [os.path.join(where, n) for n in names if n.lower().endswith(SUFFIXES)]
    if not found:
        raise FileNotFoundError(f"no JPEG files in {directory}")
    return sorted(found)


def _fractal(rng, height, width, exponent):
    """Noise whose amplitude falls with frequency as it does in natural scenes; -1 to 1."""
    import numpy as np

    fy = np.fft.fftfreq(height)[:, None]
    fx = np.fft.rfftfreq(width)[None, :]
    radius = np.hypot(fy, fx)
    radius[0, 0] = 1
    shape = radius.shape
    spectrum = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
    spectrum *= radius ** -exponent
    spectrum[0, 0] = 0
    noise = np.fft.irfft2(spectrum, (height, width))
    return noise / np.abs(noise).max()


def _shapes(rng, picture, count):
    """Objects with edges and textures of their own, drawn over @picture in place."""
    import numpy as np

    height, width, _ = picture.shape
    y, x = np.mgrid[0:height, 0:width]
    for _ in range(count):
        cy, cx = rng.uniform(0, height), rng.uniform(0, width)
        ry, rx = rng.uniform(0.05, 0.35, 2) * (height, width)
        turn = rng.uniform(0, np.pi)
        u = ((x - cx) * np.cos(turn) + (y - cy) * np.sin(turn)) / rx
        v = ((y - cy) * np.cos(turn) - (x - cx) * np.sin(turn)) / ry
        inside = (u * u + v * v < 1) if rng.random() < 0.6 else (abs(u) + abs(v) < 1)
        light = 1 - 0.5 * (u * u + v * v)
        picture[inside] = rng.uniform(30, 230, 3) * light[inside][:, None]


def _picture(seed, width, height):
    import numpy as np

    rng = np.random.default_rng(seed)
    top, bottom = rng.uniform(40, 220, (2, 3))
    slope = np.linspace(0, 1, height)[:, None, None]
    picture = np.repeat(top + (bottom - top) * slope, width, axis=1)
    _shapes(rng, picture, int(rng.integers(3, 9)))
    picture += 70 * _fractal(rng, height, width, 1.4)[:, :, None]
    picture += 35 * _fractal(rng, height, width, 0.7)[:, :, None]
    for channel in range(3):
        picture[:, :, channel] += 30 * _fractal(rng, height, width, 1.3)
    return np.clip(picture, 0, 255).astype("uint8")


def _encode(picture):
    """JPEG bytes of about TARGET_BYTES: by bisection over the quality."""
    import io

    from PIL import Image

    image = Image.fromarray(picture)
    low, high, best = 60, 97, None
    while low <= high:
        quality = (low + high) // 2
        buffer = io.BytesIO()
        image.save(buffer, "JPEG", quality=quality)
        data = buffer.getvalue()
        if best is None or abs(len(data) - TARGET_BYTES) < abs(len(best) - TARGET_BYTES):
            best = data
        if len(data) < TARGET_BYTES:
            low = quality + 1
        else:
            high = quality - 1
    return best


class NotAPicture(ValueError):
    """Somebody called something else .jpg."""


def make(directory, count, progress=lambda done, total: None):
    """Make @count photograph-like files in ImageFolder layout in @directory.

    Deterministic; nothing is done when the directory is complete already, and an
    interrupted run leaves no directory of that name.  Needs NumPy and Pillow.
    """
    if os.path.isdir(directory):
        return
    unfinished = directory + ".unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    # Not one class without a picture: ImageFolder refuses that.
    for label in range(min(CLASSES, count)):
        os.makedirs(os.path.join(unfinished, f"class{label:02d}"))
    for number in range(count):
        width, height = SIZES[number % len(SIZES)]
        data = _encode(_picture(number, width, height))
        name = f"class{number % CLASSES:02d}/photo{number:05d}.jpg"
        with open(os.path.join(unfinished, name), "wb") as file:
            file.write(data)
        progress(number + 1, count)
    os.rename(unfinished, directory)


def image_folder(images, directory):
    """ImageFolder layout for @images: the directory itself, or links to its files in
    @directory when it has no classes."""
    if any(entry.is_dir() for entry in os.scandir(images)):
        return images
    for number, path in enumerate(find(images)):
        target = os.path.join(directory, f"class{number % CLASSES:02d}")
        os.makedirs(target, exist_ok=True)
        os.symlink(os.path.abspath(path), os.path.join(target, os.path.basename(path)))
    return directory


def multiply(images, directory, count, progress=lambda done, total: None):
    """@count distinct streams from the files @images, in ImageFolder layout in @directory.

    Each copy carries a comment with its own number, so no two have the same content while
    all cost what the original costs to decode.  Returns their paths, in order.
    """
    paths = []
    for label in range(CLASSES):
        os.makedirs(os.path.join(directory, f"class{label:02d}"), exist_ok=True)
    for number in range(count):
        with open(images[number % len(images)], "rb") as file:
            data = file.read()
        comment = b"\xff\xfe\x00\x0a" + struct.pack(">Q", number)
        name = f"class{number % CLASSES:02d}/copy{number:06d}.jpg"
        path = os.path.join(directory, name)
        with open(path, "wb") as file:
            file.write(data[:2] + comment + data[2:])
        paths.append(path)
        progress(number + 1, count)
    return paths


def dimensions(path):
    """Width, height and components from the frame header of a JPEG file."""
    with open(path, "rb") as file:
        data = file.read()
    at = 2
    while at + 9 < len(data):
        if data[at] != 0xFF:
            break
        marker = data[at + 1]
        if marker == 0xFF or 0xD0 <= marker <= 0xD9 or marker == 0x01:
            at += 1 if marker == 0xFF else 2
            continue
        length = struct.unpack(">H", data[at + 2:at + 4])[0]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", data[at + 5:at + 9])
            return width, height, data[at + 9]
        at += 2 + length
    raise NotAPicture(f"{os.path.realpath(path)} is not a JPEG file")


def decoded_bytes(paths):
    """Mean size of the decoded photographs, as RGB."""
    total = 0
    for path in paths:
        width, height, _ = dimensions(path)
        total += width * height * 3
    return total / len(paths)
