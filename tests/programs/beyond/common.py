# SPDX-License-Identifier: MIT
"""What the programs of all frameworks have in common: the pictures, and how one is decoded."""

import io
import os

import numpy

COUNT, CLASSES = 256, 4
SIZE = (500, 375)
SIDE = 224  # of what is cut out of a picture
DONE = "complete"


def make(root):
    """Pictures below @root, in a directory per class, unless they are there."""
    import PIL.Image
    if os.path.exists(os.path.join(root, DONE)):
        return
    generator = numpy.random.RandomState(0)
    for number in range(COUNT):
        folder = os.path.join(root, "train", "c%d" % (number % CLASSES))
        os.makedirs(folder, exist_ok=True)
        small = generator.randint(0, 256, (38, 50, 3)).astype(numpy.uint8)
        picture = PIL.Image.fromarray(small).resize(SIZE, PIL.Image.BICUBIC)
        picture.save(os.path.join(folder, "%03d.jpg" % number), quality=90)
    open(os.path.join(root, DONE), "w").close()


def pictures(root):
    """All paths, in order of their numbers."""
    folders = [os.path.join(root, "train", "c%d" % number) for number in range(CLASSES)]
    return sorted((os.path.join(folder, name) for folder in folders for name in os.listdir(folder)),
                  key=os.path.basename)


def read(path):
    """The bytes of a file."""
    with open(path, "rb") as file:
        return file.read()


def with_pillow(data):
    """Pixels of the picture in the bytes @data."""
    import PIL.Image
    return numpy.asarray(PIL.Image.open(io.BytesIO(data)).convert("RGB"))


def with_opencv(data):
    """The same by OpenCV."""
    import cv2
    return cv2.imdecode(numpy.frombuffer(data, numpy.uint8), cv2.IMREAD_COLOR)


def crop(picture, generator):
    """A part of @picture, where a NumPy @generator says."""
    top = generator.integers(picture.shape[0] - SIDE + 1)
    left = generator.integers(picture.shape[1] - SIDE + 1)
    return numpy.ascontiguousarray(picture[top:top + SIDE, left:left + SIDE])
