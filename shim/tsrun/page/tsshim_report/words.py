# SPDX-License-Identifier: MIT
"""Numbers and times as people read them; what is not known is said so, and never 0."""

import time

UNKNOWN = "n/a"
PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
KIND_NAMES = {"sample": "samples", "pixels": "pictures", "device": "copies to a GPU",
              "bytes": "opens of files"}


def number(value):
    return UNKNOWN if value is None else format(round(value), ",")


def brief(value):
    """Three digits at most, for axes and rates."""
    if value is None:
        return UNKNOWN
    for size, prefix in PREFIXES:
        if abs(value) >= size * 0.9995:
            return "%.3g%s" % (value / size, prefix)
    return "%.3g" % value


def percent(part, whole):
    """Never all or nothing where it is not."""
    if part is None or not whole:
        return UNKNOWN
    if part in (0, whole):
        return "100 %" if part else "0 %"
    share = 100 * part / whole
    return "< 0.1 %" if share < 0.1 else "> 99.9 %" if share > 99.9 else "%.1f %%" % share


def duration(seconds):
    if seconds is None:
        return UNKNOWN
    if seconds < 10:
        return "%.2f s" % seconds
    if seconds < 120:
        return "%.0f s" % seconds
    minutes = int(seconds // 60)
    if minutes < 120:
        return "%d min" % minutes
    hours = minutes // 60
    if hours < 48:
        return "%d h %02d min" % (hours, minutes % 60)
    return "%s d %d h" % (format(hours // 24, ","), hours % 24)


def cpu(seconds):
    """CPU time: hours where it is some, as it is paid for."""
    if seconds is None:
        return UNKNOWN
    if seconds < 7200:
        return duration(seconds)
    hours = seconds / 3600
    return ("%.1f h" % hours) if hours < 100 else format(round(hours), ",") + " h"


def moment(seconds):
    """Of the local time, with how far that is from UTC."""
    if seconds is None:
        return UNKNOWN
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S %z", time.localtime(seconds))
    except (OverflowError, ValueError, OSError):
        return UNKNOWN


def many(count, one, more=None):
    return "%s %s" % (format(count, ","), one if count == 1 else more or one + "s")
