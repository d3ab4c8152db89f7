# SPDX-License-Identifier: MIT
"""What Pillow and OpenCV see of the pictures that are named."""
import hashlib
import sys

import cv2
import numpy
from PIL import Image, ImageOps


def digest(data):
    return hashlib.sha256(data).hexdigest()


for path in sys.argv[1:]:
    try:
        with Image.open(path) as image:
            print(image.mode, image.size, sorted(image.info))
            print(digest(ImageOps.exif_transpose(image).resize((64, 64)).tobytes()))
    except Exception as error:
        print(type(error).__name__, str(error).split("/")[0])
    picture = cv2.imread(path)
    print(None if picture is None else digest(numpy.ascontiguousarray(picture)))
