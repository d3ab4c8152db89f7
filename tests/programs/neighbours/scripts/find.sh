#!/bin/sh
# SPDX-License-Identifier: MIT
mkdir -p d/1/2 d/3
touch -d @86400 d/1/a d/1/2/b d/3/c
ln -s ../1 d/3/l
find d -printf '%y %p %l %m\n' | sort
find d -type f -exec sh -c 'echo "$@" | wc -w' sh {} +
find -L d -samefile d/1/a | sort
find d -newermt 1990-01-01 -type f -delete
find d -type f -delete -print | sort
find missing || echo "$?"
