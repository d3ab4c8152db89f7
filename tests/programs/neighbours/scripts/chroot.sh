#!/bin/sh
# SPDX-License-Identifier: MIT
mkdir r
cp /bin/busybox r
chroot r /busybox sh -c '/busybox ls /; exit 3' || echo "$?"
chroot / sh -c 'echo inside; pwd'
rm -r r
