#!/bin/sh
# SPDX-License-Identifier: MIT
seq 200 | xargs -P8 -n3 sh -c 'echo $#' | sort | uniq -c
seq 5 | xargs -P2 -I{} sh -c 'exit {}' || echo "status $?"
