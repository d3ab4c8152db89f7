# SPDX-License-Identifier: MIT
"""What was found, as text, and the file of it that the library reads (shim/verdict.h has the format)."""

import os
import stat
import tempfile

HEAD = "tsshim-gpu 1"
BYTES = 8191  # most of the file
SOFTWARE = "software"  # in the place of the version of NVIDIA's kernel module, where there is none
MODULE = "/sys/module/nvidia/version"
SHOWN = 16 << 20  # bytes of a copy whose times stand in the text


def module():
    try:
        with open(MODULE, encoding="ascii") as file:
            return file.read(60).split()[0]
    except (OSError, ValueError, IndexError):
        return SOFTWARE


def digest(data):
    """FNV-1a of 64 bits."""
    value = 0xcbf29ce484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001b3 & 0xffffffffffffffff
    return f"{value:016x}"


def costs(figures):
    """What a copy takes by each way, for people; "": nothing was measured."""
    taken = figures.get("taken") or {}
    count = max((count for count in taken if count <= SHOWN), default=None)
    if count is None:
        return ""
    ways = [f"{figures[way][count]:.3f} ms from {way} memory" for way in ("pinned", "pageable") if count in figures.get(way, {})]
    return f"{count >> 10} KiB take {taken[count]:.3f} ms from another process, {' and '.join(ways)}"


def text_of(gpu, facts):
    """The verdict of a GPU in a line."""
    what = "a driver made of software, which is no GPU" if facts["module"] == SOFTWARE else "driver " + facts["module"]
    said = "right, and it pays: " + costs(gpu["figures"]) if gpu["verdict"] == "yes" else "no: " + gpu["why"]
    return "%s (%s, CUDA %d.%d, kernel %s, %s): %s" % (
        gpu["name"], what, gpu["cuda"] // 1000, gpu["cuda"] % 1000 // 10, facts["kernel"], facts["day"], said)


def lines_of(gpu, facts):
    said = "".join(c if " " <= c <= "~" else "?" for c in text_of(gpu, facts))
    return [f"gpu {gpu['uuid']} {gpu['cuda']} {facts['module']} {gpu['verdict']}", "say " + said[:600]]


def read_old(path):
    """{uuid: its two lines} of the file that is there, if it is one of ours."""
    try:
        with open(path, "rb") as file:
            found, data = os.fstat(file.fileno()), file.read(BYTES + 1)
        lines = data.decode("ascii").split("\n")
    except (OSError, ValueError):
        return {}
    end = data.rfind(b"end ")
    if (found.st_uid != os.geteuid() or found.st_mode & 0o022 or not stat.S_ISREG(found.st_mode) or lines[0] != HEAD
            or data[end:] != f"end {digest(data[:end])}\n".encode()):
        return {}
    return {line.split()[1]: [line, said] for line, said in zip(lines[1:-2:2], lines[2:-2:2])}


def keep(path, gpus, facts):
    """Write the verdicts to @path: a whole file takes the place of the old one.  What that says of GPUs that are not visible
    now stays where the driver is the same."""
    rows = {gpu["uuid"]: lines_of(gpu, facts) for gpu in gpus}
    for uuid, lines in read_old(path).items():
        if uuid not in rows and gpus and lines[0].split()[2:4] == [str(gpus[0]["cuda"]), facts["module"]]:
            rows[uuid] = lines
    text = HEAD + "\n"
    for lines in rows.values():
        more = "\n".join(lines) + "\n"
        if len(text) + len(more) + 21 <= BYTES:
            text += more
    data = text.encode("ascii")
    place = os.path.dirname(path)
    os.makedirs(place, mode=0o700, exist_ok=True)
    fd, beside = tempfile.mkstemp(prefix="gpu.", dir=place)
    try:
        with open(fd, "wb") as file:
            file.write(data + f"end {digest(data)}\n".encode())
            file.flush()
            os.fsync(fd)
        os.rename(beside, path)
    except BaseException:
        os.unlink(beside)
        raise
