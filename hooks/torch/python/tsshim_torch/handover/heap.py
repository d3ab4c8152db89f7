# SPDX-License-Identifier: MIT
"""A worker's freed memory stays with it from one item to the next.

glibc gives the end of its heap back to the system when it is longer than twice the largest block
that the process had mapped singly and freed (mallopt(3), M_MMAP_THRESHOLD, "dynamic").  An item
that takes several blocks of about one size, and frees them in the end, can have that happen
each time, and the next item faults all of it in again.
"""

import ctypes

# So much of the heap's end, twice, is kept at most: a picture in one of Pillow's blocks, which have
# no more than 16 MiB, and what is cut out of it.  What is larger is mapped singly as before, and
# glibc's rule goes on from there.
BLOCK = 16 << 20


def keep():
    """
    Free one block that was never touched: the rule above does the rest.  No setting is changed:
    where the user or the program has made one, as with MALLOC_TRIM_THRESHOLD_, and in other
    allocators, it does nothing.  For a process that only makes samples.
    """
    process = ctypes.PyDLL(None)  # the malloc of this process, whoever brought it
    process.malloc.restype = ctypes.c_void_p
    process.malloc.argtypes = [ctypes.c_size_t]
    process.free.restype = None
    process.free.argtypes = [ctypes.c_void_p]
    process.free(process.malloc(BLOCK))
