# SPDX-License-Identifier: MIT
"""The charts of the page: which jobs have a colour, what is drawn, and what the pointer reads."""

from . import facts, plot, series, words

COLOURED = 6  # jobs with a colour of their own; more could not be told apart
DRAWN = 100  # with a line of their own; more make it black
TIMES = (("hours", 3600), ("minutes", 60), ("seconds", 1))


class Chart:
    """@plots by size; @panels of (title, [(name, colour, values)]) for legend and pointer."""

    def __init__(self, title, about, panels, gaps, unit=""):
        self.title, self.about, self.panels, self.gaps = title, about, panels, gaps
        self.unit = unit
        self.plots, self.extents = {}, {}


class Cast:
    """The jobs in their order, of which the largest have colours, and the others are one."""

    def __init__(self, jobs, names):
        self.jobs, self.names = jobs, names
        done = {job: sum(sum(row[:2]) for row in facts.final(job).values()) for job in jobs}
        largest = sorted(jobs, key=lambda job: -done[job])
        self.drawn = set(largest[:DRAWN])
        count = len(jobs) if len(jobs) <= COLOURED else COLOURED - 1
        chosen = set(largest[:count])
        self.leading = [job for job in jobs if job in chosen]
        self.rest = [job for job in jobs if job not in chosen]

    def rest_name(self):
        return words.many(len(self.rest), "other job")

    def each(self, values):
        """[(name, colour, values)] and those of the rest; @values is a function of a job."""
        lead = [(self.names[job], number, values(job))
                for number, job in enumerate(self.leading, 1)]
        return lead, [values(job) for job in self.rest]

    def summed(self, values):
        """Of each leading job, and the sum of the rest."""
        lead, rest = self.each(values)
        return lead + ([(self.rest_name(), 0, series.added(rest))] if rest else [])


def all_gaps(axis):
    return sorted({gap for gaps in axis.gaps.values() for gap in gaps})


def draw(chart, axis, paints, least_top=1e-9, top=None):
    """@paints: functions that draw into a plot, one for each panel of the @chart."""
    for size in plot.SIZES:
        made = plot.Plot(size, axis, [title for title, _ in chart.panels])
        made.gaps(chart.gaps)
        for number, paint in enumerate(paints):
            paint(made, number)
        chart.plots[size] = made.svg(least_top, top)
        chart.extents[size] = made.extent
    return chart


def lines(axis, cast, title, about, unit, panels, least_top=1e-9):
    """Panels of (title, function of a job), as one line for each job."""
    shown, paints = [], []
    for name, values in panels:
        lead, rest = cast.each(values)
        between = [(cast.rest_name() + ", mean", 0, mean(rest))] if rest else []
        shown.append((name, lead + between))
        thin = [row for job, row in zip(cast.rest, rest) if job in cast.drawn]
        paints.append(lambda made, number, lead=lead, thin=thin: (
            [made.line(number, 0, row, thin=True) for row in thin],
            [made.line(number, colour, row) for _, colour, row in lead]))
    return draw(Chart(title, about, shown, all_gaps(axis), unit), axis, paints, least_top)


def stacks(axis, cast, title, about, unit, panels, paint=plot.Plot.stack):
    """Panels of (title, function of a job), one upon the other, drawn by @paint."""
    shown, paints = [], []
    for name, values in panels:
        rows = cast.summed(values)
        shown.append((name, rows))
        paints.append(lambda made, number, rows=rows: paint(
            made, number, [(colour, row) for _, colour, row in rows]))
    return draw(Chart(title, about, shown, all_gaps(axis), unit), axis, paints)


def mean(rows):
    found = []
    for values in zip(*rows):
        known = [value for value in values if value is not None]
        found.append(sum(known) / len(known) if known else None)
    return found


# ---- which there are -----------------------------------------------------------------------


def tallied(job, kind, *columns):
    """(time, sum of the columns) of its counts of this kind; none where it never had any."""
    if kind not in facts.final(job):
        return []
    return series.counted(
        job, lambda row: sum(row[1][kind][c] for c in columns) if kind in row[1] else 0)


def throughput(axis, cast, kind):
    made, taken = facts.PRODUCED, facts.SHARED
    return lines(axis, cast, "Throughput: " + words.KIND_NAMES[kind], "What each job got in a second, whoever made it.",
                 words.KIND_NAMES[kind] + " per second",
                 [("", lambda job: series.rates(job, axis, tallied(job, kind, made, taken)))])


def exchange(axis, cast, kind):
    made, taken = facts.PRODUCED, facts.SHARED
    return stacks(
        axis, cast, "Who made, and who took: " + words.KIND_NAMES[kind],
        "Made: worked out by the job itself. Taken: what another job had made, from the ring.",
        words.KIND_NAMES[kind] + " per second",
        [("Made", lambda job: series.rates(job, axis, tallied(job, kind, made))),
         ("Taken", lambda job: series.rates(job, axis, tallied(job, kind, taken)))])


def progress(axis, cast):
    return lines(
        axis, cast, "In front and behind",
        "Where aligned jobs are. Who is behind takes what those in front have made, as long as "
        "the ring has it.", "epochs",
        [("Position", lambda job: series.places(job, axis, 1)),
         ("Behind the job in front", lambda job: series.places(job, axis, 2))], least_top=0.01)


def ring(axis, log):
    chart = Chart("Ring", "How much of the shared memory is in use. It stays full once it is: the "
                  "oldest goes for the newest.", [], all_gaps(axis), "per cent of the capacity")
    rows = []
    sources = [source for source in log.sources.values() if source.ring]
    for number, source in enumerate(sources):
        values = [None if v is None else 100 * v for v in series.fill(source, axis)]
        rows.append((source.name(), 1 + number if number < COLOURED else 0, values))
    chart.panels.append(("", rows))
    return draw(chart, axis, [lambda made, number: [
        made.line(number, colour, row) for _, colour, row in rows]], top=105)


def waits(axis, cast):
    return stacks(
        axis, cast, "Waits in vain",
        "Waits for another job's work that ran into their deadline; the work was done here as "
        "well. Waits that ended well are not recorded.", "per minute",
        [("", lambda job: series.late(job, axis))], plot.Plot.bars)


def savings(axis, cast):
    whole = facts.total(facts.saved(job) for job in cast.jobs)
    unit, size = next(row for row in TIMES if whole >= 2 * row[1] or row[1] == 1)

    def saved(job):
        def total(row):
            return sum(tally[facts.SAVED] for kind, tally in row[1].items()
                       if kind != facts.NOT_SAVED) / size
        return series.totals(job, axis, series.counted(job, total))
    return stacks(axis, cast, "CPU time saved",
                  "What those who made it had spent on what each job took, added up.",
                  "CPU " + unit, [("", saved)])


def make(log, jobs, names, axis):
    """All charts of what there is; of the rest there is none.  In two columns, those of one
    height stand side by side."""
    plot.prepare()
    cast = Cast(jobs, names)
    kinds = facts.shown_kinds(jobs)
    low = [throughput(axis, cast, kind) for kind in kinds]
    high = [exchange(axis, cast, kind) for kind in kinds]
    if any(facts.saved(job) for job in jobs):
        low.append(savings(axis, cast))
    if any(source.ring for source in log.sources.values()):
        low.append(ring(axis, log))
    if any(job.passed.get("timeout") for job in jobs):
        low.append(waits(axis, cast))
    if any(job.order for job in jobs):
        high.append(progress(axis, cast))
    first = min(len(low), 2 * -(-len(kinds) // 2))
    return low[:first] + high + low[first:]
