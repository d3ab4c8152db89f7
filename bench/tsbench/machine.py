# SPDX-License-Identifier: MIT
"""Where a measurement was made."""
import os
import platform
import subprocess


def _first(path, key):
    try:
        with open(path, encoding="utf-8") as file:
            for line in file:
                if line.startswith(key):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return None


def cores():
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0))


def memory_bytes():
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def available_bytes():
    """Memory that programs can still have; what is cached counts as free."""
    return int(_first("/proc/meminfo", "MemAvailable:").split()[0]) * 1024


def versions(python):
    """Versions of what @python imports; absent modules are left out."""
    program = ("import importlib, json\nfound = {}\n"
               "for name in ('numpy', 'PIL', 'torch', 'torchvision', 'tensorsocket'):\n"
               "    try:\n"
               "        found[name] = importlib.import_module(name).__version__\n"
               "    except ImportError:\n"
               "        pass\n"
               "print(json.dumps(found))")
    import json
    done = subprocess.run([python, "-c", program], capture_output=True, text=True, check=False)
    return json.loads(done.stdout) if done.returncode == 0 else {}


def _commit(root):
    done = subprocess.run(["git", "-C", root, "describe", "--always", "--dirty"],
                          capture_output=True, text=True, check=False)
    return done.stdout.strip() or None


def facts(root, python):
    """What a reader needs to judge or repeat a measurement."""
    system = None
    try:
        system = platform.freedesktop_os_release().get("PRETTY_NAME")
    except (AttributeError, OSError):
        pass
    return {
        "cpu": _first("/proc/cpuinfo", "model name") or platform.machine(),
        "cores": cores(),
        "memory_gib": round(memory_bytes() / 2**30, 1),
        "kernel": platform.release().split("-")[0],
        "system": system,
        "versions": versions(python),
        "commit": _commit(root),
        "load_before": round(os.getloadavg()[0], 2),
    }
