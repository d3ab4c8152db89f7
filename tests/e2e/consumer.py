# SPDX-License-Identifier: MIT
"""Decode pictures as trainers do and print all there is to see.  An ordinary program: it
knows nothing of what may be preloaded.

usage: consumer.py KIND ORDER FILE...      ORDER: given, reversed
"""

import hashlib
import io
import mmap
import os
import re
import sys
import warnings


def digest(data):
    """Short hash of pixels."""
    return hashlib.sha256(data).hexdigest()[:24]


def pillow_image(image):
    """What is visible of a loaded picture."""
    image.load()
    return "%s %s %s %s" % (image.mode, image.size, digest(image.tobytes()),
                            sorted((k, str(v)[:60]) for k, v in image.info.items()
                                   if not isinstance(v, bytes)))


def opened(file):
    from PIL import Image
    return Image.open(file)


def pillow(path):
    with open(path, "rb") as file:
        return pillow_image(opened(file).convert("RGB"))


def pillow_name(path):
    return pillow_image(opened(path))


def pillow_bytesio(path):
    with open(path, "rb") as file:
        return pillow_image(opened(io.BytesIO(file.read())))


def pillow_mmap(path):
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as data:
        return pillow_image(opened(io.BytesIO(data[:])))


def pillow_truncated(path):
    from PIL import ImageFile
    ImageFile.LOAD_TRUNCATED_IMAGES = True
    return pillow_image(opened(path))


def pillow_draft(path):
    texts = []
    for mode, size in (("RGB", (300, 200)), ("RGB", (150, 100)), ("RGB", (40, 40)), ("L", (200, 200))):
        image = opened(path)
        texts.append("%s %s" % (image.draft(mode, size), pillow_image(image)))
    return texts


def pillow_exif(path):
    from PIL import ImageOps
    return pillow_image(ImageOps.exif_transpose(opened(path)))


def pillow_frames(path):
    from PIL import ImageSequence
    return [pillow_image(frame.copy()) for frame in ImageSequence.Iterator(opened(path))]


def torchvision_read(path):
    import torchvision.io
    image = torchvision.io.read_image(path)
    return "%s %s" % (tuple(image.shape), digest(image.numpy().tobytes()))


def torchvision_modes(path):
    import torch
    from torchvision.io import ImageReadMode, decode_jpeg
    with open(path, "rb") as file:
        data = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8)
    texts = []
    for mode in (ImageReadMode.RGB, ImageReadMode.GRAY):
        image = decode_jpeg(data, mode=mode)
        texts.append("%s %s" % (tuple(image.shape), digest(image.numpy().tobytes())))
    return texts


def cv2_image(image):
    """None, or shape and pixels."""
    return "None" if image is None else "%s %s" % (image.shape, digest(image.tobytes()))


def cv2_imread(path):
    import cv2
    return [cv2_image(cv2.imread(path, flag)) for flag in (
        cv2.IMREAD_COLOR, cv2.IMREAD_GRAYSCALE, cv2.IMREAD_UNCHANGED,
        cv2.IMREAD_REDUCED_COLOR_2)]


def cv2_imdecode(path):
    import cv2
    import numpy
    return cv2_image(cv2.imdecode(numpy.fromfile(path, numpy.uint8), cv2.IMREAD_COLOR))


KINDS = [pillow, pillow_name, pillow_bytesio, pillow_mmap, pillow_truncated, pillow_draft,
         pillow_exif, pillow_frames, torchvision_read, torchvision_modes, cv2_imread,
         cv2_imdecode]


def main():
    """One block per picture: its name, then the results or the exception."""
    decode = {kind.__name__: kind for kind in KINDS}[sys.argv[1]]
    paths = sys.argv[3:]
    if sys.argv[2] == "reversed":
        paths.reverse()
    # Warnings of C and Python libraries on stderr would come in the order of the pictures.
    os.environ["OPENCV_LOG_LEVEL"] = "OFF"
    for path in paths:
        print(os.path.basename(path))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                print(" ", decode(path))
            except Exception as problem:
                # Addresses differ from run to run; so does the stack trace of torch.
                text = str(problem).split("Exception raised from")[0].strip()
                text = re.sub("0x[0-9a-f]+", "0x...", text)
                print(" ", type(problem).__module__, type(problem).__name__, repr(text))
            for warning in caught:
                print("  warned", warning.category.__name__, str(warning.message))


if __name__ == "__main__":
    main()
