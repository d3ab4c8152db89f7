# SPDX-License-Identifier: MIT
"""Whether copies to a GPU may be shared: right bytes, and worth it.

    driver.py   the functions of the CUDA driver, by ctypes
    memory.py   the bytes that are copied, and the places that they are copied between
    other.py    the second process: it owns memory that others open, or opens theirs
    checks.py   the checks of one GPU, each with its name
    verdict.py  what was found, as text, and the file of it that the library reads
    command.py  the command line; the process of each GPU, and its end when time is over
"""
