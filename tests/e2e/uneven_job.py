# SPDX-License-Identifier: MIT
"""
A job for uneven.py: prints each batch that its loader delivered, and what the loader raised.  The worker of the
first batch makes nothing before other workers have made others of its items.
"""

import contextlib
import hashlib
import os
import signal
import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset

import costs
import data_job
import meeting

GUARD = 200  # seconds


class Items(Dataset):
    """Draw nothing."""

    def __init__(self, count, raises):
        self.count, self.raises = count, raises

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if index == self.raises:
            raise ValueError("item %d" % index)
        return torch.full((3, 40, 40), float(index)), index


class Drawing(Items):
    def __getitem__(self, index):
        picture, index = super().__getitem__(index)
        return picture + torch.rand(picture.shape), index


def hold(place, until, dies, at):
    """
    Let item 0 wait until others of its job have made those up to @until; the file of an item in @place tells which
    process made it first.  Another process than that of item 0 is killed in the middle of item @dies, or at the kill
    point @at after it.
    """
    from tsshim_torch import asking, native
    get, is_first = asking.Items.get, False

    def is_made(index):
        return os.path.exists(os.path.join(place, str(index)))

    def note(name):
        """Whether this process is the first one."""
        with native.unseen(), contextlib.suppress(FileExistsError), \
                open(os.path.join(place, str(name)), "x") as file:
            print(os.getpid(), file=file)
            return True
        return False

    def held(self, index):
        nonlocal is_first
        if index == 0:
            is_first |= note("first")
            limit = time.monotonic() + GUARD
            while not all(map(is_made, range(1, until + 1))):
                assert time.monotonic() < limit, "nobody makes them"
                time.sleep(.001)
        elif index == dies and not is_first and at:
            os.environ["TSSHIM_TEST_KILL"] = at
        elif index == dies and not is_first:
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            return get(self, index)
        finally:
            note(index)

    asking.Items.get = held


def show(epoch, batches):
    """To its end, beyond what an item raised."""
    while True:
        try:
            pictures, indices = next(batches)
        except StopIteration:
            return
        except ValueError as error:
            print("raised", str(error).strip().rpartition("\n")[2])
            continue
        except (RuntimeError, OSError) as error:  # a worker is gone, or what it was about to hand over
            with contextlib.suppress(RuntimeError):  # torch's handler may still have to say so
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            print("ended", epoch, "DataLoader worker" in str(error) or isinstance(error, OSError))
            return
        print("batch", epoch, indices.tolist(), hashlib.md5(pictures.numpy().tobytes()).hexdigest()[:12])


def main():
    options = data_job.options_of(items=60, workers=3, batch=8, epochs=2, seed=1, raises=-1, until=7, dies=-1, at="", place=str,
                                  draw=False, persistent=False)
    costs.install()
    data_job.begin(options)
    if options.place and "tsshim_torch" in sys.modules:
        hold(options.place, options.until, options.dies, options.at)
    data = (Drawing if options.draw else Items)(options.items, options.raises)
    loader = DataLoader(data, options.batch, num_workers=options.workers, persistent_workers=options.persistent)
    for epoch in range(options.epochs):
        show(epoch, iter(loader))
    meeting.part()


if __name__ == "__main__":
    main()
