#!/bin/sh
# SPDX-License-Identifier: MIT
cwebp -quiet -mt "$PICTURES"/s_baseline.jpg -o o.webp
dwebp -quiet o.webp -ppm -o - | sha256sum
sha256sum o.webp
webpinfo o.webp | tail -3
