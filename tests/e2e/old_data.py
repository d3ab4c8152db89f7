# SPDX-License-Identifier: MIT
"""
Make what tests load that has to be a minute old before it is shared.  scripts/test does so before
all others, so that none of them waits for it.
"""

import os

import programs
import questions
import support
import sweeps


def main():
    os.makedirs(os.path.join(support.BUILD, "tests", "e2e"), exist_ok=True)
    programs.Data.make()
    questions.make_pictures()
    sweeps.Data.make()


if __name__ == "__main__":
    main()
