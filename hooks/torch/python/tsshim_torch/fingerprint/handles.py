# SPDX-License-Identifier: MIT
"""
Files that a dataset keeps open for reading: named by which file it is, as memory maps are.

What they read next is not part of the name: a dataset that shares its samples gives the same one
for the same index, so it does not go by where it stopped reading.
"""

import fcntl
import os
import re
import stat
import sys

from . import library
from .walk import is_plain


with_devices = True  # set by who uses the name on another node as well


def identity(status):
    """
    What tells the file with this @status from others, and from itself when it is changed.  The
    numbers of devices are each node's own.
    """
    return repr((status.st_dev if with_devices else None, status.st_ino, status.st_size, status.st_mtime_ns,
                 status.st_ctime_ns))


def _of_descriptor(number):
    if fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY:
        return None
    status = os.fstat(number)
    return identity(status) if stat.S_ISREG(status.st_mode) else None


def _of_file(file):
    """An open file of Python's, or what unpacks one."""
    return b"closed" if file.closed else _of_descriptor(file.fileno())


def _of_zip(archive):
    if archive.fp is None:
        return b"closed"
    if archive.mode != "r" or not is_plain(archive.pwd):
        return None
    found = _of_known(archive.fp)
    return found and "%s %r" % (found, archive.pwd)


def _of_tar(archive):
    if archive.closed:
        return b"closed"
    return _of_known(archive.fileobj) if archive.mode == "r" else None


def _of_hdf5(node):
    """A file of h5py's, or a group or data set in one."""
    if not node:
        return b"closed"
    file = node.file
    if file.mode != "r" or file.driver != "sec2" or file.swmr_mode:
        return None
    found = _of_descriptor(file.id.get_vfd_handle())
    return found and "%s %s" % (found, node.name)


def _of_lmdb(environment):
    flags = environment.flags()
    if not flags["readonly"]:
        return None
    path = environment.path()
    if flags["subdir"]:
        path = os.path.join(path, "data.mdb")
    return "%s %r" % (identity(os.stat(path)), environment.info()["last_txnid"])


# Classes of libraries, by their names.
_KNOWN = {
    "_io.FileIO": _of_file, "_io.BufferedReader": _of_file, "_io.TextIOWrapper": _of_file,
    "gzip.GzipFile": _of_file, "bz2.BZ2File": _of_file, "lzma.LZMAFile": _of_file,
    "zipfile.ZipFile": _of_zip, "tarfile.TarFile": _of_tar,
    "h5py._hl.files.File": _of_hdf5, "h5py._hl.group.Group": _of_hdf5,
    "h5py._hl.dataset.Dataset": _of_hdf5,
    "builtins.Environment": _of_lmdb, "lmdb.Environment": _of_lmdb,
    "lmdb.cpython.Environment": _of_lmdb,
}


_VARIANT = re.compile(r"\._debian_h5py_\w+")  # Debian has several of them side by side


def _of_known(value):
    """Text for the file behind @value, or None: it may be written, or cannot be told."""
    kind = type(value)
    name = _VARIANT.sub("", library.class_name(kind))
    if name not in _KNOWN or not (name.startswith("builtins.") or library.is_library_class(kind)):
        return None
    return _KNOWN[name](value)


_FILE_SYSTEM = "fsspec.spec.AbstractFileSystem"
# Those that hold no files themselves; the hub's are named with their revision.
_FILE_SYSTEMS = ("fsspec.implementations.local.LocalFileSystem",
                 "huggingface_hub.hf_file_system.HfFileSystem")


def _add_file_system(walker, value):
    """
    One of fsspec's: what it was made with; what it has learnt is a cache, by tokens of the process.
    Which files are opened through it the items say.
    """
    kind = type(value)
    if library.class_name(kind) not in _FILE_SYSTEMS or not library.is_library_class(kind):
        return False
    walker.put(b"h", library.class_name(kind))
    walker.put(b"h", library.module_content(sys.modules[library.class_module(kind)]))
    walker.add(list(value.storage_args), ".storage_args")
    walker.add(dict(value.storage_options), ".storage_options")
    return True


def add_handle(walker, value):
    """Write which file @value has open for reading; gives False where that cannot be told."""
    try:
        if any(library.class_name(base) == _FILE_SYSTEM for base in library.mro(type(value))):
            return _add_file_system(walker, value)
        found = _of_known(value)
    except Exception:  # of a library, whose handle is not as ours are
        return False
    if found is None:
        return False
    walker.put(b"h", library.class_name(type(value)))
    walker.put(b"h", found)
    return True
