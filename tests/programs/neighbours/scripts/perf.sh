#!/bin/sh
# SPDX-License-Identifier: MIT
perf stat -x, -e task-clock -o log true && cut -d, -f3 log | tail -1
rm log
