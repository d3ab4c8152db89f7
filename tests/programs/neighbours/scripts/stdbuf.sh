#!/bin/sh
# SPDX-License-Identifier: MIT
stdbuf -oL sh -c 'seq 3; echo error >&2' 2>&1
stdbuf -o0 -i0 cut -d, -f1 <<END
a,b
END
stdbuf -oL djpeg -gray "$PICTURES"/s_baseline.jpg | sha256sum
