#!/bin/sh
# SPDX-License-Identifier: MIT
. "$SCRIPTS/allocator.sh"
allocator '/usr/lib/*/libmimalloc.so.2*'
