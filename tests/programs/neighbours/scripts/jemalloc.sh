#!/bin/sh
# SPDX-License-Identifier: MIT
. "$SCRIPTS/allocator.sh"
allocator '/usr/lib/*/libjemalloc.so.2'
