# SPDX-License-Identifier: MIT
"""What a log says in the end: sums, a row for each job, and why the rest was not shared."""

PRODUCED, SHARED, _, SAVED = range(4)
SHOWN_KINDS = ("sample", "pixels", "device")
NOT_SAVED = "bytes"  # what copies of files save is no CPU time
WORTH_A_WORD = 10  # one in so many is enough for a reason that something helps against
ISOLATED = "torch_isolated"  # counted once for all that a process does


def final(job):
    """{kind: tally} at the end of what is known."""
    return job.counts[-1][1]


def of_kind(job, kind, column):
    """None where the job counted nothing of the kind."""
    row = final(job).get(kind)
    return row[column] if row else None


def sums(jobs, kind):
    """(made, taken) of all."""
    return tuple(sum(of_kind(job, kind, column) or 0 for job in jobs)
                 for column in (PRODUCED, SHARED))


def shown_kinds(jobs):
    """Those of which something was done; not pictures that are part of samples only."""
    done = {kind: sums(jobs, kind) for kind in SHOWN_KINDS}
    shown = [kind for kind in SHOWN_KINDS if sum(done[kind]) > 0]
    if "sample" in shown and "pixels" in shown and done["pixels"][1] == 0:
        shown.remove("pixels")
    return shown


def main_kind(jobs):
    """What the first figure is of: that of which most was done; None where nothing was."""
    return max(shown_kinds(jobs), key=lambda kind: sum(sums(jobs, kind)), default=None)


def saved(job):
    """CPU seconds that others had spent on what it took; None where nothing is known of it."""
    rows = [row[SAVED] for kind, row in final(job).items() if kind != NOT_SAVED]
    return sum(rows) if rows else None


def cpu(job):
    return job.counts[-1][2]


def total(values):
    """None where none is known."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def saved_share(jobs):
    """(saved, what it all would have taken), of jobs whose CPU time is known."""
    known = [job for job in jobs if cpu(job) is not None]
    spared = total(saved(job) for job in known)
    return (spared, spared + sum(map(cpu, known))) if spared is not None else (None, None)


class Reason:
    def __init__(self, identity, count, row):
        self.identity, self.count = identity, count
        self.text = row["text"] if row else "counted by a newer version of tsshim"
        self.fix = row["fix"] if row else ""
        self.is_lost = self.fix is not None


def reasons(jobs, table):
    """All that were counted, the most frequent first; @table is that of tsrun."""
    known = {row["id"]: row for row in table}
    counts = {}
    for job in jobs:
        for identity, count in job.passed.items():
            counts[identity] = counts.get(identity, 0) + count
    found = [Reason(identity, count, known.get(identity))
             for identity, count in counts.items() if count > 0]
    return sorted(found, key=lambda reason: (-reason.count, reason.identity))


def main_reason(found):
    """As the line at the end of a job has it: the most frequent one of those that cost
    something, but rather one that something helps against (leader/line/line.c)."""
    lost = [reason for reason in found if reason.is_lost]
    for reason in lost:
        if reason.identity == ISOLATED:
            return reason
    helped = next((reason for reason in lost if reason.fix), None)
    if helped and helped.count >= sum(reason.count for reason in lost) // WORTH_A_WORD:
        return helped
    return lost[0] if lost else None


def not_shared(job, table):
    return sum(reason.count for reason in reasons([job], table) if reason.is_lost)


def state(job):
    """How @job is when its log ends.  Of one that was killed with all that wrote nothing says
    more."""
    if job.ended is not None:
        return "ended"
    return "running" if job.counts[-1][0] == job.source.samples[-1][0] else "not recorded"


def lasted(job):
    """(seconds, whether that is all of it)"""
    first, last = job.times()
    return last - first, job.began is not None and job.ended is not None
