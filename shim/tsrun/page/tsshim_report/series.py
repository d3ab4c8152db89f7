# SPDX-License-Identifier: MIT
"""What counters say over time.

A counter is known at the samples of its job and grows between them; a rate is its growth in one
of some hundred equal parts of the time.  Where nothing was recorded, nothing is known: None.
"""

import bisect

PARTS = 240
WIDTHS = (1, 2, 3, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400)
GAP_MIN = 30.0  # seconds after which a sample that was due is missing, for busy machines,
GAP_TIMES = 3  # and so many times as long as it was to be


def middle(values):
    return sorted(values)[len(values) // 2]


def find_gaps(source, jobs):
    """(from, to) in which nothing was recorded though a job of the @source was there."""
    lives = [job.times() for job in jobs if job.source is source]
    return [(begin, end)
            for (begin, every), (end, _) in zip(source.samples, source.samples[1:])
            if end - begin > GAP_MIN + GAP_TIMES * every and
            any(first <= begin and end <= last for first, last in lives)]


class Axis:
    """The time of all sources in equal parts."""

    def __init__(self, log):
        jobs = log.all_jobs()
        sources = list(log.sources.values())
        self.gaps = {source: find_gaps(source, jobs) for source in sources}
        times = [t for source in sources for t, _ in source.samples]
        # What was before the first line of all is not in the log.
        self.begin = min(times, default=0.0)
        last = max(times, default=0.0)
        steps = [b - a for s in sources for a, b in zip(s.times(), s.times()[1:]) if b > a]
        least = max((last - self.begin) / PARTS, 1.5 * middle(steps) if steps else 0)
        self.width = next((w for w in WIDTHS if w >= least), least)
        self.count = max(1, -int(-(last - self.begin) // self.width))
        self.end = last

    def edges(self):
        return [self.begin + self.width * i for i in range(self.count + 1)]

    def centers(self):
        return [self.begin + self.width * (i + 0.5) for i in range(self.count)]

    def has_gap(self, source, begin, end):
        return any(begin < to and start < end for start, to in self.gaps[source])


class Curve:
    """A line through points of time and value."""

    def __init__(self, points):
        self.times = [t for t, _ in points]
        self.values = [v for _, v in points]

    def at(self, when):
        """None before the first point; behind the last one it stays."""
        i = bisect.bisect_right(self.times, when)
        if i == 0:
            return None
        if i == len(self.times):
            return self.values[-1]
        t0, t1 = self.times[i - 1], self.times[i]
        v0, v1 = self.values[i - 1], self.values[i]
        return v0 + (v1 - v0) * (when - t0) / (t1 - t0) if t1 > t0 else v1


def counted(job, value):
    """(time, counter) of its counts, @value of which is the counter, or None."""
    known = [(row[0], value(row)) for row in job.counts]
    return [(t, v) for t, v in known if v is not None]


def growth(job, axis, known):
    """The curve of a counter with these (time, value)s; None where there are none."""
    if not known:
        return None
    is_new = job.began is not None and axis.begin - 1 <= job.began < known[0][0]
    return Curve([(job.began, 0), *known] if is_new else known)


def rates(job, axis, known):
    """Growth by second in each part of @axis; None where the job was not, or is not known."""
    curve, life = growth(job, axis, known), job.times()
    if not curve:
        return [None] * axis.count
    found = []
    edges = axis.edges()
    for begin, end in zip(edges, edges[1:]):
        lived = min(end, life[1]) - max(begin, life[0])
        if lived <= 0 or axis.has_gap(job.source, begin, end) or curve.at(end) is None:
            found.append(None)
            continue
        before = curve.at(begin)
        grown = curve.at(end) - (curve.values[0] if before is None else before)
        found.append(grown / max(lived, axis.width / 2))
    return found


def totals(job, axis, known):
    """The counter at the end of each part; None in gaps."""
    curve = growth(job, axis, known)
    if not curve:
        return [0.0] * axis.count
    return [None if axis.has_gap(job.source, begin, end) else curve.at(end) or 0.0
            for begin, end in zip(axis.edges(), axis.edges()[1:])]


def places(job, axis, column):
    """The @column of job.order in the middle of each part."""
    if not job.order:
        return [None] * axis.count
    curve = Curve([(row[0], row[column]) for row in job.order])
    last = job.times()[1]
    return [None if when > last or axis.has_gap(job.source, when, when) else curve.at(when)
            for when in axis.centers()]


def fill(source, axis):
    """How much of the ring is in use in the middle of each part, 0 to 1."""
    rows = [(t, used / capacity) for t, capacity, used in source.ring if capacity > 0]
    if not rows:
        return [None] * axis.count
    times = [t for t, _ in rows]
    found = []
    for begin, end in zip(axis.edges(), axis.edges()[1:]):
        at = bisect.bisect_right(times, end)
        known = at > 0 and not axis.has_gap(source, begin, end)
        found.append(rows[at - 1][1] if known else None)
    return found


def late(job, axis):
    """Waits that ran into their deadline, by minute; each in the part in which it was counted."""
    found = [None if rate is None else 0.0 for rate in rates(job, axis, job.late)]
    is_new = job.began is not None and job.began >= axis.begin - 1
    before = 0 if is_new else job.late[0][1]
    for when, counted_late in job.late:
        part = min(axis.count - 1, max(0, int((when - axis.begin) / axis.width)))
        if found[part] is not None:
            found[part] += (counted_late - before) * 60 / axis.width
        before = counted_late
    return found


def added(rows):
    """The sum of lists of equal length; None where none of them is known."""
    return [sum(v for v in values if v is not None) if any(v is not None for v in values) else None
            for values in zip(*rows)]
