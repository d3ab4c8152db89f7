#!/bin/sh
# SPDX-License-Identifier: MIT
TZ=UTC faketime -f '@2001-02-03 04:05:06' date
faketime '2001-02-03 04:05:06' /usr/bin/python3 -c 'import time; print(time.localtime()[:5])'
TZ=UTC faketime '2001-02-03' sh -c 'date +%Y; sleep 0; wc -l </etc/hostname'
