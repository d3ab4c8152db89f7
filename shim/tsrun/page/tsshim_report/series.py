# SPDX-License-Identifier: MIT
"""What counters say over time.

A counter is known at the lines of its job and grows between them; a rate is its growth in one of
some hundred equal parts of the time.  Where nothing was recorded, nothing is known: None.
"""

import bisect
import itertools

PARTS = 240
WIDTHS = (1, 2, 3, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400)
GAP_MIN = 30.0  # seconds without a line that may be a hole in the log,
GAP_TIMES = 8  # if there is usually one so much more often
IDLE_TIMES = 4  # so much more than usual between two lines of a job: it had stood still
IDLE_MIN = 5.0
AROUND = 7  # lines on either side that say what is usual


def middle(values):
    return sorted(values)[len(values) // 2]


def usual(steps, at):
    """What steps around @at are like."""
    return middle(steps[max(0, at - AROUND):at + AROUND + 1])


def work_done(jobs, times):
    """All that @jobs had made and taken by each of the @times, which are sorted."""
    grown = [0] * len(times)
    for job in jobs:
        before = 0
        for when, kinds, _ in job.counts:
            done = sum(sum(row[:2]) for row in kinds.values())
            grown[bisect.bisect_left(times, when)] += done - before
            before = done
    return list(itertools.accumulate(grown))


def was_written(source, done, times, at):
    """Whether the silence from times[at] on is that of jobs that did nothing: the writer is the
    same behind it, and no more was done than in a few steps; @done is from work_done()."""
    if times[at + 1] in source.heads:
        return False
    around = done[max(0, at - AROUND):at + 1], done[at + 1:at + 2 + AROUND]
    usually = max((b - a for part in around for a, b in zip(part, part[1:])), default=0)
    return done[at + 1] - done[at] <= IDLE_TIMES * usually


def find_gaps(source, jobs):
    """(from, to) in which nothing was recorded though a job of the @source was there."""
    times = sorted(set(source.times))
    steps = [b - a for a, b in zip(times, times[1:])]
    own = [job for job in jobs if job.source is source]
    lives = [job.times() for job in own]
    done = work_done(own, times)
    found = []
    for at, step in enumerate(steps):
        begin, end = times[at], times[at + 1]
        if step >= GAP_MIN and step > GAP_TIMES * usual(steps, at) and \
                any(first <= begin and end <= last for first, last in lives) and \
                not was_written(source, done, times, at):
            found.append((begin, end))
    return found


class Axis:
    """The time of all sources in equal parts."""

    def __init__(self, log):
        jobs = log.all_jobs()
        sources = list(log.sources.values())
        self.gaps = {source: find_gaps(source, jobs) for source in sources}
        times = [t for source in sources for t in (source.times[:1] + source.times[-1:])]
        # What was before the first line of all is not in the log.
        self.begin = min(times, default=0.0)
        last = max(times, default=0.0)
        steps = [b - a for s in sources for a, b in zip(s.times, s.times[1:]) if b > a]
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
    points = []
    if job.began is not None and axis.begin - 1 <= job.began < known[0][0]:
        points.append((job.began, 0))
    steps = [b[0] - a[0] for a, b in zip(known, known[1:])]
    for at, (when, v) in enumerate(known):
        if at > 0:
            step, often = steps[at - 1], usual(steps, at - 1)
            # Lines are written when something has changed: it stood still until just before.
            if step > max(IDLE_MIN, IDLE_TIMES * often) and \
                    not axis.has_gap(job.source, known[at - 1][0], when):
                points.append((when - often, known[at - 1][1]))
        points.append((when, v))
    return Curve(points)


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
    before = 0 if is_new or not job.late else job.late[0][1]
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
