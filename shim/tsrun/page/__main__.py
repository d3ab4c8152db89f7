# SPDX-License-Identifier: MIT
"""What `tsrun report` becomes; shim/tsrun/page.c starts it as `python3 DIRECTORY ...`."""

import sys

from tsshim_report.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
