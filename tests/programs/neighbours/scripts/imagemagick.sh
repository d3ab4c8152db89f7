#!/bin/sh
# SPDX-License-Identifier: MIT
for p in "$PICTURES"/s_4*.jpg "$PICTURES"/s_baseline.jpg; do
	identify -format '%m %w %h %[colorspace] %#\n' "$p"
	convert "$p" -resize 64x64 -rotate 30 rgb:- | sha256sum
	convert -size 100x100 "$p" -quality 50 jpg:- | sha256sum
done
montage "$PICTURES"/s_4*.jpg -geometry 32x32 ppm:- | sha256sum
compare -metric AE "$PICTURES"/s_baseline.jpg "$PICTURES"/s_baseline.jpg null: 2>&1
