# SPDX-License-Identifier: MIT
"""
A program that makes a new data set for each of three epochs, with no patience for its code; prints
which processes walked over it, and where an epoch ends.
"""

import os
import sys

from torch.utils.data import DataLoader, Dataset

from tsshim_torch.fingerprint import datasets, walk

walk.UNTIMED, walk.PATIENCE, datasets.SLOW = 0, -1, -1  # as if the code were endless
walker = datasets.Walker


def walked(*arguments, **more):
    if not more.get("data_only"):
        os.write(1, b"walked %d\n" % os.getpid())
    return walker(*arguments, **more)


datasets.Walker = walked


class Data(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        return sum(range(300000)) + index  # dear enough to be shared


for epoch in range(3):
    given = [value for batch in DataLoader(Data(), 4, num_workers=int(sys.argv[1]))
             for value in batch.tolist()]
    assert given == [sum(range(300000)) + index for index in range(64)]
    os.write(1, b"epoch\n")
