# SPDX-License-Identifier: MIT
"""A page of an event log.

    log.py      reads and checks the lines; nothing of them is trusted
    series.py   what they say over time: counters as curves, rates in equal parts of the time
    facts.py    what they say in the end: sums, rows of the table, the reason that mattered most
    words.py    numbers as people read them
    charts.py   curves as SVG, by matplotlib, which no other file here needs
    page.py     all of it as HTML
    command.py  the command line, and the file that is written
"""
