# SPDX-License-Identifier: MIT
"""Build the small C programs of the benchmarks, and the library that counts decodes."""
import glob
import os
import re
import struct
import subprocess

from .jobs import JobError

SLOTS = 512

# What bench/counter/countjpeg.c defines in front of the real functions.
COUNTED = ("jpeg_read_scanlines", "jpeg_finish_decompress")


def _run(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise JobError(f"{' '.join(command)}\n{done.stderr}")
    return done.stdout


def program(root, directory, name, more=("-ljpeg", "-ldl")):
    """Compile bench/native/@name.c into @directory, with @more words. Its path."""
    os.makedirs(directory, exist_ok=True)
    source = os.path.join(root, "bench", "native", name + ".c")
    target = os.path.join(directory, name)
    headers = glob.glob(os.path.join(root, "bench", "native", "*.h"))
    # What it is linked with may have another layout by now.
    made_of = (source, *headers, *filter(os.path.isfile, more))
    if not os.path.exists(target) or os.path.getmtime(target) < max(map(os.path.getmtime, made_of)):
        _run(["cc", "-O2", "-std=gnu11", "-D_GNU_SOURCE", "-o", target, source, *more])
    return target


def slowfs(root, directory):
    """Compile tests/storage/slowfs into @directory. Its path, whether or not that could be."""
    os.makedirs(directory, exist_ok=True)
    sources = glob.glob(os.path.join(root, "tests", "storage", "slowfs", "*.c"))
    target = os.path.join(directory, "slowfs")
    newest = max(map(os.path.getmtime, sources))
    if not os.path.exists(target) or os.path.getmtime(target) < newest:
        flags = subprocess.run(["pkg-config", "--cflags", "--libs", "fuse3 >= 3.14"],
                               capture_output=True, text=True, check=False)
        if flags.returncode == 0:
            _run(["cc", "-O2", "-std=gnu11", "-D_GNU_SOURCE", "-pthread", "-o", target,
                  *sorted(sources), *flags.stdout.split()])
    return target


def software_driver(root, directory):
    """Compile tests/fakecuda into @directory. The directory of its libcuda.so.1: no GPU."""
    where = os.path.join(root, "tests", "fakecuda")
    with open(os.path.join(where, "meson.build"), encoding="utf-8") as file:
        names = re.search(r"fakecuda_sources = files\((.*?)\)", file.read(), re.S).group(1)
    sources = [os.path.join(where, name) for name in re.findall(r"'(\w+\.c)'", names)]
    found = os.path.join(directory, "software-driver")
    target = os.path.join(found, "libcuda.so.1")
    os.makedirs(found, exist_ok=True)
    newest = max(map(os.path.getmtime, sources + glob.glob(os.path.join(where, "*.h"))))
    if not os.path.exists(target) or os.path.getmtime(target) < newest:
        _run(["cc", "-O2", "-std=gnu11", "-D_GNU_SOURCE", "-fPIC", "-shared", "-pthread",
              "-fvisibility=hidden", "-Wl,-Bsymbolic", "-Wl,-soname,libcuda.so.1", "-o", target,
              *sources, "-ldl"])
    return found


def _real_library():
    """Path and SONAME of the libjpeg that programs are linked with."""
    path = os.path.realpath(_run(["cc", "-print-file-name=libjpeg.so"]).strip())
    soname = re.search(r"Library soname: \[(.*?)\]", _run(["readelf", "-d", path])).group(1)
    return path, soname


def _exports(path):
    """Name and version node (or "") of every function that @path exports."""
    found = []
    for line in _run(["readelf", "--dyn-syms", "-W", path]).splitlines():
        words = line.split()
        if len(words) >= 8 and words[3] == "FUNC" and words[6] != "UND":
            name, _, version = words[7].partition("@")
            found.append((name, version.lstrip("@")))
    return found


def _version_script(exports):
    nodes = {}
    for name, version in exports:
        nodes.setdefault(version, []).append(name)
    if list(nodes) == [""]:
        return "{ global: *; };\n"
    text = ""
    for version in sorted(node for node in nodes if node):
        names = " ".join(f"{name};" for name in nodes[version])
        text += f"{version} {{ global: {names} }};\n"
    return text + "TS_COUNTJPEG_HIDDEN { local: *; };\n"


def counter(root, directory):
    """Build the counting libjpeg; the directory to put first in LD_LIBRARY_PATH."""
    real, soname = _real_library()
    archive = _run(["cc", "-print-file-name=libjpeg.a"]).strip()
    target = os.path.join(directory, "counter")
    os.makedirs(target, exist_ok=True)
    renamed = os.path.join(target, "renamed.a")
    _run(["objcopy", *(f"--redefine-sym={name}=real_{name}" for name in COUNTED),
          "--redefine-sym=stderr=countjpeg_stderr", archive, renamed])
    script = os.path.join(target, "countjpeg.map")
    with open(script, "w", encoding="utf-8") as file:
        file.write(_version_script(_exports(real)))
    _run(["cc", "-O2", "-std=gnu11", "-D_GNU_SOURCE", "-fPIC", "-shared",
          f"-Wl,-soname,{soname}", "-Wl,-Bsymbolic", f"-Wl,--version-script={script}",
          "-o", os.path.join(target, soname),
          os.path.join(root, "bench", "counter", "countjpeg.c"),
          "-Wl,--whole-archive", renamed, "-Wl,--no-whole-archive", "-lm"])
    return target


class Counts:
    """The file of counters, one slot per job."""

    def __init__(self, directory, library):
        self.library = library
        self.path = os.path.join(directory, "counts")
        with open(self.path, "wb") as file:
            file.write(bytes(16 * SLOTS))

    def environment(self, slot):
        before = os.environ.get("LD_LIBRARY_PATH")
        path = self.library + (":" + before if before else "")
        return {"LD_LIBRARY_PATH": path, "COUNTJPEG_FILE": self.path,
                "COUNTJPEG_SLOT": str(slot)}

    def read(self, slots):
        """Decodes begun so far in the slots 0 to @slots - 1."""
        with open(self.path, "rb") as file:
            data = file.read(16 * slots)
        return [struct.unpack_from("<QQ", data, 16 * slot)[0] for slot in range(slots)]
