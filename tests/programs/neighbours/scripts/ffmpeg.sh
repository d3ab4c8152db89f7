#!/bin/sh
# SPDX-License-Identifier: MIT
ffmpeg -v error -nostdin -i "$PICTURES"/s_baseline.jpg -pix_fmt rgb24 -f rawvideo - | sha256sum
ffmpeg -v error -nostdin -f lavfi -i testsrc=d=1:s=160x120 \
	-fflags +bitexact -flags +bitexact -threads 4 -c:v mjpeg -q:v 3 v.avi
ffprobe -v error -show_streams v.avi | grep -e codec_name -e nb_frames
ffmpeg -v error -nostdin -i v.avi -f framemd5 -bitexact - | tail -3
