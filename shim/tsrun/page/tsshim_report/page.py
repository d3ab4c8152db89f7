# SPDX-License-Identifier: MIT
"""The page: one file that loads nothing.

What stands in a log may be anything, so all of it goes through escape() or data(), and the head
forbids the browser whatever the page does not need: it runs the one script whose digest it has.
"""

import base64
import hashlib
import html
import json
import os
import re

from . import facts, words

NOTES_SHOWN = 20
POLICY = ("default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-%s'; "
          "base-uri 'none'; form-action 'none'")


def beside(name):
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name)
    with open(path, encoding="utf-8") as file:
        return file.read()


def escape(text):
    return html.escape(str(text), quote=True)


def isolated(text):
    """What comes from a log, in a direction of its own."""
    return "<bdi>%s</bdi>" % escape(text)


def prose(text):
    """Of our own tables: options are not broken, commands are marked."""
    text = re.sub(r"`([^`]*)`", r'<code class="word">\1</code>', escape(text))
    return re.sub(r"(?<![\w-])(--[a-z-]+)", r'<span class="word">\1</span>', text)


def data(value):
    """JSON that no part of can end the element it stands in."""
    raw = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return raw.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def figure(name, value, shown):
    """A number as people read it, and as it is."""
    raw = "" if value is None else "%.15g" % value
    return '<data id="%s" value="%s">%s</data>' % (name, raw, escape(shown))


# ---- the head of the page ------------------------------------------------------------------


def headline(log, jobs):
    names = sorted(source.name() for source in log.sources.values())
    times = [t for s in log.sources.values() for t, _ in s.samples]
    versions = sorted({v for s in log.sources.values() for v in s.versions})
    title = ", ".join(names) if names else "nothing recorded"
    rows = []
    if times:
        rows.append(("Recorded", '<time>%s</time> to <time>%s</time> (%s)' % (
            escape(words.moment(min(times))), escape(words.moment(max(times))),
            escape(words.duration(max(times) - min(times))))))
    rows.append(("Jobs", figure("jobs", len(jobs), words.number(len(jobs)))))
    if versions:
        rows.append(("tsshim", isolated(", ".join(versions))))
    return title, '<h1>%s</h1><dl class="about">%s</dl>' % (
        isolated(title), "".join("<div><dt>%s</dt><dd>%s</dd></div>" % row for row in rows))


def tile(label, big, small, wide=False):
    return '<div class="tile%s"><h2>%s</h2><p class="big">%s</p><p class="small">%s</p></div>' % (
        " wide" if wide else "", escape(label), big, small)


def work_tiles(jobs):
    kind = facts.main_kind(jobs)
    if not kind:
        yield tile("Delivered", figure("delivered", None, words.UNKNOWN),
                   "no sample and no picture was counted")
        return
    made, taken = facts.sums(jobs, kind)
    others = ["%s %s" % (words.number(sum(facts.sums(jobs, other))), words.KIND_NAMES[other])
              for other in facts.shown_kinds(jobs) if other != kind]
    yield tile("%s delivered" % words.KIND_NAMES[kind].capitalize(),
               figure("delivered", made + taken, words.number(made + taken)),
               escape("and " + ", ".join(others) if others else "to " + words.many(
                   len(jobs), "job")))
    yield tile("Taken from others",
               figure("taken-share", taken / (made + taken), words.percent(taken, made + taken)),
               "%s taken, %s made" % (figure("taken", taken, words.number(taken)),
                                      figure("made", made, words.number(made))))


def saved_tile(jobs):
    saved = facts.total(facts.saved(job) for job in jobs)
    part, whole = facts.saved_share(jobs)
    if whole:
        small = "%s of what the jobs would have used" % words.percent(part, whole)
    else:
        small = "what the jobs used is not known"
    return tile("CPU time saved", figure("saved", saved, words.cpu(saved)), escape(small))


def reason_tile(jobs, table):
    found = facts.reasons(jobs, table)
    reason = facts.main_reason(found)
    if not reason:
        big, small = "nothing lost", "no reason was counted that cost something"
        return tile("Not shared", '<span id="reason" data-reason="">%s</span>' % big, small, True)
    big = '<span id="reason" data-reason="%s">%s</span>' % (
        escape(reason.identity), prose(reason.text))
    small = "%s of %s times" % (
        words.number(reason.count), words.number(sum(r.count for r in found if r.is_lost)))
    if reason.fix:
        small += '. What helps: <span class="fix">%s</span>' % prose(reason.fix)
    return tile("Why the rest was not shared", big, small, True)


# ---- charts --------------------------------------------------------------------------------


def short(values):
    """Three digits do, for what is read from a plot."""
    return [None if value is None else float("%.3g" % value) for value in values]


def legend(chart):
    """Of the first panel's names; where all have one there is only one."""
    rows = chart.panels[0][1]
    if not rows:
        return ""
    items = "".join('<li><span class="key" data-colour="%d"></span>%s <span class="value"></span>'
                    "</li>" % (colour, isolated(name)) for name, colour, _ in rows)
    if chart.gaps:
        items += '<li><span class="key gap"></span>nothing recorded</li>'
    return '<ul class="legend">%s</ul>' % items


def chart_figure(chart, number, axis):
    told = {"begin": axis.begin, "width": axis.width, "extents": chart.extents,
            "parts": (axis.end - axis.begin or 1.0) / axis.width,
            "panels": [{"title": title, "rows": [short(values) for _, _, values in rows]}
                       for title, rows in chart.panels]}
    plots = "".join('<div class="%s">%s</div>' % (size, svg) for size, svg in chart.plots.items())
    return (
        '<figure class="chart" id="chart-%d"><figcaption><h2>%s</h2><p>%s</p></figcaption>'
        '<p class="unit"><span>%s</span><output></output></p>'
        '<div class="plot" tabindex="0" role="img" aria-label="%s">%s<div class="rule"></div>'
        '</div>%s<script type="application/json">%s</script></figure>' % (
            number, escape(chart.title), escape(chart.about), escape(chart.unit),
            escape("%s, %s, over the time since the log begins. With the arrow keys it is read."
                   % (chart.title, chart.unit)), plots, legend(chart), data(told)))


# ---- tables --------------------------------------------------------------------------------


REASON_COLUMNS = ("Reason", "Times", "", "What it means", "What helps")


def reason_row(reason, most):
    helps = prose(reason.fix) if reason.fix else "" if reason.is_lost else \
        '<span class="soft">part of sharing: nothing was lost</span>'
    # The roles are those they have anyway, but for narrow pages, where the rows are grids.
    return ('<tr role="row"><th scope="row" role="rowheader"><code>%s</code></th>'
            '<td role="cell" class="number">%s</td>'
            '<td role="cell" class="bar"><span style="width:%.1f%%" class="%s"></span></td>'
            '<td role="cell">%s</td><td role="cell">%s</td></tr>' % (
                escape(reason.identity), figure("reason-" + reason.identity, reason.count,
                                                words.number(reason.count)),
                100 * reason.count / most, "lost" if reason.is_lost else "kept",
                prose(reason.text), helps))


def reason_table(jobs, table):
    found = facts.reasons(jobs, table)
    if not found:
        return ""
    most = found[0].count
    rows = "".join(reason_row(reason, most) for reason in found)
    head = "".join('<th scope="col" role="columnheader"%s>%s</th>' % (
        ' class="number"' if name == "Times" else "",
        name or '<span class="unseen">Share of the most frequent</span>') for name in REASON_COLUMNS)
    about = "How often each reason applied, in all jobs. More on each: docs/reasons.md of tsshim."
    if all(reason.identity != "timeout" for reason in found):
        about += " No wait for another job ran into its deadline."
    return section(
        "reasons", "Why work was not shared", about,
        scrolled("Reasons", '<table role="table"><thead role="rowgroup"><tr role="row">%s</tr>'
                 '</thead><tbody role="rowgroup">%s</tbody></table>' % (head, rows)))


JOB_COLUMNS = (("Job", ""), ("Program", ""), ("Data set", ""), ("Mode", ""), ("Lasted", "number"),
               ("Made", "number"), ("Taken", "number"), ("", "number"), ("Not shared", "number"),
               ("CPU used", "number"), ("CPU saved", "number"), ("End", ""))


def job_row(job, number, name, table):
    kind = facts.main_kind([job])
    made, taken = (facts.of_kind(job, kind, column) if kind else None
                   for column in (facts.PRODUCED, facts.SHARED))
    seconds, is_all = facts.lasted(job)
    mode = job.mode or words.UNKNOWN
    if job.align is not None and job.mode in ("aligned", "free"):
        mode += " %d" % job.align

    def cell(what, value, shown):
        return '<td class="number">%s</td>' % figure("job-%d-%s" % (number, what), value, shown)

    return "<tr><th scope=\"row\">%s</th>%s%s%s%s%s</tr>" % (
        isolated(name),
        "".join("<td>%s</td>" % (isolated(text) if text else words.UNKNOWN)
                for text in (job.program, job.dataset)),
        "<td>%s</td>" % escape(mode),
        cell("lasted", seconds, ("" if is_all else "≥ ") + words.duration(seconds)),
        cell("made", made, words.number(made)) + cell("taken", taken, words.number(taken)) +
        '<td class="number">%s</td>' % escape(words.percent(
            taken, (made or 0) + (taken or 0)) if kind else words.UNKNOWN) +
        cell("lost", facts.not_shared(job, table), words.number(facts.not_shared(job, table))) +
        cell("cpu", facts.cpu(job), words.cpu(facts.cpu(job))) +
        cell("saved", facts.saved(job), words.cpu(facts.saved(job))),
        "<td>%s</td>" % escape(facts.state(job)))


def job_table(jobs, names, table):
    if not jobs:
        return ""
    head = "".join('<th scope="col"%s>%s</th>' % (
        ' class="number"' if kind else "", name or '<span class="unseen">Taken, of both</span>')
        for name, kind in JOB_COLUMNS)
    rows = "".join(job_row(job, number, names[job], table)
                   for number, job in enumerate(jobs, 1))
    kinds = {facts.main_kind([job]) for job in jobs} - {None}
    counted = " or ".join(words.KIND_NAMES[kind] for kind in facts.SHOWN_KINDS if kind in kinds)
    about = "Made and taken are %s." % counted if counted else ""
    return section("jobs-table", "Jobs", about + " n/a is what the log does not say.", scrolled(
        "Jobs", "<table><thead><tr>%s</tr></thead><tbody>%s</tbody></table>" % (head, rows)))


def scrolled(name, table):
    """Wider than the page it moves by itself, by keys as well."""
    return '<div class="scroll" tabindex="0" role="region" aria-label="%s">%s</div>' % (name, table)


def section(name, title, about, content):
    return '<section id="%s"><h2>%s</h2><p>%s</p>%s</section>' % (
        name, escape(title), escape(about.strip()), content)


def note_section(log, axis):
    """What is missing on the page."""
    items = ["<li>%s:%d: %s</li>" % (isolated(name), line, escape(what))
             for name, line, what in log.notes[:NOTES_SHOWN]]
    if len(log.notes) > NOTES_SHOWN:
        items.append("<li>and %s more</li>" % words.number(len(log.notes) - NOTES_SHOWN))
    for source, gaps in axis.gaps.items():
        items += ["<li>%s: nothing was recorded from %s on for %s</li>" % (
            isolated(source.name()), escape(words.moment(begin)),
            escape(words.duration(end - begin))) for begin, end in gaps[:NOTES_SHOWN]]
    if not items:
        return ""
    return '<aside id="notes"><h2>What is missing here</h2><ul>%s</ul></aside>' % "".join(items)


# ---- all of it -----------------------------------------------------------------------------

FRAME = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="%(policy)s">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<meta name="generator" content="tsrun report">
<title>%(title)s – tsshim</title>
<style>
%(style)s</style>
</head>
<body>
<header><p class="what">tsshim report</p>%(head)s</header>
<main>
%(body)s
</main>
<script>%(script)s</script>
</body>
</html>
"""


def compose(log, jobs, names, axis, charts, table):
    """The page as text."""
    title, head = headline(log, jobs)
    script = beside("page.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    if jobs:
        tiles = [*work_tiles(jobs), saved_tile(jobs), reason_tile(jobs, table)]
        drawn = "\n".join(chart_figure(chart, n, axis) for n, chart in enumerate(charts, 1))
        body = ['<section class="tiles" aria-label="In short">%s</section>' % "".join(tiles),
                note_section(log, axis), '<div class="charts">%s</div>' % drawn,
                reason_table(jobs, table), job_table(jobs, names, table)]
    else:
        body = ['<p id="nothing">No job has been recorded.</p>', note_section(log, axis)]
    return FRAME % {"policy": escape(POLICY % digest).replace("&#x27;", "'"), "head": head,
                    "title": escape(title), "style": beside("page.css"),
                    "body": "\n".join(part for part in body if part), "script": script}
