# SPDX-License-Identifier: MIT
"""One plot as SVG, by matplotlib.

Colours are names of the style sheet, so that a page is light or dark as its reader is.  No text
of a log is drawn: only figures and times stand on the axes.  Each plot is made twice, for wide
and for narrow pages; letters stay readable in both.
"""

import io
import itertools
import re

import matplotlib
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator

from . import words

# What matplotlib draws with, and the variable of the style sheet that takes its place.
NAMES = ("ink", "soft", "grid", "gap", "other", "s1", "s2", "s3", "s4", "s5", "s6")
COLOURS = {name: "#fe00%02x" % number for number, name in enumerate(NAMES, 16)}
NAMED = {colour: "var(--%s)" % name for name, colour in COLOURS.items()}

SIZES = {"wide": (720, 200), "narrow": (440, 200)}  # of one panel, with its axes
LEFT, RIGHT, TOP, TITLE, BOTTOM = 46, 12, 10, 14, 26
LETTERS = {"wide": 12.5, "narrow": 11}  # narrow ones are made larger more often
STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200,
         86400, 172800, 432000, 864000)
SETTINGS = {"svg.fonttype": "none", "svg.hashsalt": "tsshim", "path.simplify": True,
            "axes.linewidth": 0.8, "axes.unicode_minus": False,
            "text.usetex": False, "text.parse_math": False}

_numbers = itertools.count(1)


def prepare():
    """Settings of the user's own are for plots of the user's own."""
    matplotlib.rcdefaults()
    for name, value in SETTINGS.items():
        if name in matplotlib.rcParams:
            matplotlib.rcParams[name] = value


def elapsed(seconds, step):
    """On an axis whose labels are @step apart."""
    if seconds == 0:
        return "0"
    if step % 86400 == 0 or step > STEPS[-1]:
        return words.brief(seconds // 86400) + " d"
    for size, unit in ((3600, "h"), (60, "min")):
        if seconds >= size:
            whole, part = divmod(seconds, size)
            return ("%d %s" % (whole, unit) if part == 0 else
                    "%d:%02d %s" % (whole, part * 60 // size, unit))
    return "%d s" % seconds


def colour_of(number):
    return COLOURS["s%d" % number] if number else COLOURS["other"]


def points(values):
    return [float("nan") if value is None else value for value in values]


def tidy(svg):
    """What matplotlib wrote, as a part of a page: names of this plot alone, our colours."""
    svg = svg[svg.index("<svg"):]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.S)
    svg = re.sub(r"<!--.*?-->", "", svg, flags=re.S)
    svg = re.sub(r"<style.*?</style>", "", svg, flags=re.S)  # it would be that of the whole page
    svg = re.sub(r"#fe00[0-9a-f]{2}", lambda match: NAMED[match.group(0)], svg)
    svg = re.sub(r"<[^>]*>", lambda tag: re.sub(r"(\d\.\d\d?)\d+", r"\1", tag.group(0)), svg)
    svg = re.sub(r"font: [^;\"]*?([\d.]+)px [^;\"]*", r"font-size: \1px", svg)
    svg = re.sub(r"\n\s*", " ", svg)
    used = set(re.findall(r"[(\"]#([\w.-]+)[)\"]", svg))
    number = next(_numbers)
    svg = re.sub(r' id="([\w.-]+)"', lambda match: ' id="p%d-%s"' % (number, match.group(1))
                 if match.group(1) in used else "", svg)
    svg = re.sub(r"([(\"])#([\w.-]+)([)\"])", r"\1#p%d-\2\3" % number, svg)
    return re.sub(r"^<svg [^>]*viewBox", '<svg aria-hidden="true" focusable="false" viewBox', svg)


class Plot:
    """Panels one above the other, with one axis of time."""

    def __init__(self, size, axis, titles):
        width, height = SIZES[size]
        self.axis = axis
        inner = height - TOP - BOTTOM
        each = inner + TOP + (TITLE if any(titles) else 0)
        self.height = each * len(titles) + BOTTOM
        figure = Figure(figsize=(width / 72, self.height / 72), facecolor="none")
        FigureCanvasSVG(figure)
        self.figure, self.size = figure, size
        self.letters = LETTERS[size]
        self.panels = []
        for number in range(len(titles)):
            bottom = BOTTOM + (len(titles) - 1 - number) * each
            self.panels.append(figure.add_axes((
                LEFT / width, bottom / self.height, (width - LEFT - RIGHT) / width,
                inner / self.height)))
        for panel, title in zip(self.panels, titles):
            self.dress(panel, panel is self.panels[-1])
            panel.text(0, 1 + 4 / inner, title, transform=panel.transAxes,
                       color=COLOURS["ink"], fontsize=self.letters)
        # Where the axis of time begins and ends, for what follows the pointer.
        self.extent = [LEFT / width, 1 - RIGHT / width]
        self.xs = [t - axis.begin for t in axis.centers()]

    def dress(self, panel, is_last):
        span = self.axis.end - self.axis.begin or 1.0
        labels = 8 if self.size == "wide" else 5
        step = next((s for s in STEPS if span / s <= labels), span / labels)
        panel.set_facecolor("none")
        panel.set_xlim(0, span)
        panel.xaxis.set_major_locator(FixedLocator([step * i for i in range(int(span // step) + 1)]))
        panel.xaxis.set_major_formatter(FuncFormatter(
            lambda value, _: elapsed(value, step) if is_last else ""))
        panel.yaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]))
        panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: words.brief(value)))
        panel.tick_params(length=0, pad=6, colors=COLOURS["soft"],
                          labelsize=self.letters)
        panel.grid(True, axis="y", color=COLOURS["grid"], linewidth=0.8)
        panel.set_axisbelow(True)
        for side, spine in panel.spines.items():
            spine.set_visible(side == "bottom")
            spine.set_color(COLOURS["soft"])

    def gaps(self, found):
        for begin, end in found:
            for panel in self.panels:
                panel.axvspan(begin - self.axis.begin, end - self.axis.begin,
                              facecolor=COLOURS["gap"], linewidth=0)

    def line(self, panel, number, values, thin=False):
        """@number of the colour, 0 for those that have none of their own."""
        ys = points(values)
        lonely = [y if not (0 < i and values[i - 1] is not None) and
                  not (i + 1 < len(ys) and values[i + 1] is not None) else float("nan")
                  for i, y in enumerate(ys)]
        self.panels[panel].plot(self.xs, ys, color=colour_of(number), alpha=0.6 if thin else 1,
                                linewidth=0.8 if thin else 1.8, solid_joinstyle="round")
        if any(y == y for y in lonely):  # between two that are not known: no line, but a point
            self.panels[panel].plot(self.xs, lonely, color=colour_of(number), linestyle="none",
                                    marker="o", markersize=3)

    def bars(self, panel, rows):
        """@rows of (number of the colour, values), from below: events, each in its part."""
        below = [0.0] * len(self.xs)
        for number, values in rows:
            there = [i for i, value in enumerate(values) if value]
            self.panels[panel].bar([self.xs[i] for i in there], [values[i] for i in there],
                                   self.axis.width, [below[i] for i in there], linewidth=0,
                                   color=colour_of(number), alpha=0.85)
            below = [b + (v or 0.0) for b, v in zip(below, values)]

    def stack(self, panel, rows):
        """@rows of (number of the colour, values), from below: rates."""
        below = [0.0] * len(self.xs)
        for number, values in rows:
            known = [any(row[i] is not None for _, row in rows) for i in range(len(self.xs))]
            above = [b + (v or 0.0) for b, v in zip(below, values)]
            self.panels[panel].fill_between(
                self.xs, below, above, where=known, facecolor=colour_of(number), alpha=0.85,
                edgecolor="none", linewidth=0)
            below = above

    def svg(self, least_top=1e-9, top=None):
        for panel in self.panels:
            panel.set_ylim(0, top or max(least_top, panel.get_ylim()[1]))
        out = io.StringIO()
        self.figure.savefig(out, format="svg", metadata={"Date": None}, facecolor="none")
        return tidy(out.getvalue())
