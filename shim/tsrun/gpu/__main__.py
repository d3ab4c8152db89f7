# SPDX-License-Identifier: MIT
"""What `tsrun doctor --gpu` becomes; shim/tsrun/proof.c starts it as `python3 DIRECTORY ...`."""

import sys

from tsshim_gpu.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
