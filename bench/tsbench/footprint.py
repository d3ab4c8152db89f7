# SPDX-License-Identifier: MIT
"""How much memory the processes of several jobs take together."""
import threading


def pss(pids):
    """Bytes of memory of @pids, pages that several processes share counted once for all of them.

    Processes that have just ended count nothing.
    """
    total = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
                total += sum(int(line.split()[1]) for line in file if line.startswith("Pss:"))
        except (FileNotFoundError, ProcessLookupError):
            pass
    return total * 1024


def pss_beyond(pids, name):
    """The same without what is mapped of files with @name in their path."""
    total = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/smaps", encoding="utf-8", errors="replace") as file:
                counts = True
                for line in file:
                    key = line.split(None, 1)[0]
                    if not key.endswith(":"):  # the head of a mapping
                        counts = name not in line
                    elif counts and key == "Pss:":
                        total += int(line.split()[1])
        except (FileNotFoundError, ProcessLookupError):
            pass
    return total * 1024


class Peak:
    """The largest such sum, or what else @measure makes of processes, while the context lasts,
    looked at every @period seconds."""

    def __init__(self, jobs, period=1.0, measure=pss):
        self.bytes = 0
        self._jobs, self._period, self._measure = jobs, period, measure
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self):
        while not self._end.wait(self._period):
            self.look()

    def look(self):
        try:
            pids = [pid for job in self._jobs for pid in job.pids()]
        except OSError:
            return
        self.bytes = max(self.bytes, self._measure(pids))

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *error):
        self._end.set()
        self._thread.join()
        if not any(error):
            self.look()
