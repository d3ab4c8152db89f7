#!/bin/sh
# SPDX-License-Identifier: MIT
. "$SCRIPTS/allocator.sh"
allocator '/usr/lib/*/libtcmalloc_minimal.so.4'
