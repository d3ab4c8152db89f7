# SPDX-License-Identifier: MIT
"""Progress and tables for people."""
import shutil
import sys
import time


class Progress:
    """One line on standard error: rewritten in a terminal, else a line every ten seconds."""

    def __init__(self, title, total):
        self.title, self.total = title, total
        self.start = self.last = time.monotonic()
        self.shown = self.complete = False

    def update(self, done):
        now = time.monotonic()
        terminal = sys.stderr.isatty()
        if self.complete:
            return
        self.complete = done >= self.total
        if not self.complete and now - self.last < (0.2 if terminal else 10):
            return
        self.last = now
        text = f"  {self.title:<28} {done:>7} of {self.total}  {now - self.start:5.0f} s"
        if terminal:
            width = shutil.get_terminal_size().columns - 1
            sys.stderr.write("\r" + text[:width].ljust(width))
        else:
            sys.stderr.write(text + "\n")
        sys.stderr.flush()
        self.shown = True

    def finish(self):
        if self.shown and sys.stderr.isatty():
            sys.stderr.write("\n")
        self.shown = False


def table(rows):
    """Aligned text from rows of cells; the first column to the left, others to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:])]
        lines.append("  " + "   ".join(cells).rstrip())
    return "\n".join(lines)


def bars(rows, width=40):
    """A plot in text: rows of (name, number, words)."""
    room = max(len(name) for name, _, _ in rows)
    longest = max(number for _, number, _ in rows) or 1
    return "\n".join(f"  {name.ljust(room)}  "
                     f"{('#' * max(1, round(number / longest * width))).ljust(width)}  {words}"
                     for name, number, words in rows)
