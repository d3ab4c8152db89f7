# SPDX-License-Identifier: MIT
"""What the checks of the structure print."""


def report(checks):
    """A line of TAP for each of @checks (what is checked, what is wrong with it); an exit status."""
    checks = [(what, sorted(wrong)) for what, wrong in checks]
    print(f"1..{len(checks)}")
    for number, (what, wrong) in enumerate(checks, 1):
        print(f"{'not ok' if wrong else 'ok'} {number} - {what}", *wrong, sep="\n# ")
    return 1 if any(wrong for _, wrong in checks) else 0
