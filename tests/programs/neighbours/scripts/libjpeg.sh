#!/bin/sh
# SPDX-License-Identifier: MIT
for p in "$PICTURES"/s_[4acr]*.jpg; do
	djpeg -ppm "$p" 2>&1 | sha256sum
	djpeg -scale 1/2 -gray -bmp "$p" 2>/dev/null | sha256sum
	jpegtran -rotate 90 -copy all "$p" 2>&1 | sha256sum
done
djpeg "$PICTURES"/s_baseline.jpg | cjpeg -quality 60 -progressive >again.jpg
djpeg -verbose again.jpg 2>&1 >/dev/null | sed 1,3d
rdjpgcom -verbose again.jpg
head -c 2000 "$PICTURES"/s_baseline.jpg | djpeg -outfile cut.ppm 2>&1 || echo "$?"
djpeg /bin/sh 2>&1 || echo "$?"
