# SPDX-License-Identifier: MIT
"""
Prints where torch's warnings say that they come from, of loaders with workers and without.  Two more
loaders are not aligned, or not recorded.
"""

import json
import os
import warnings

import torch
from torch.utils.data import DataLoader, IterableDataset, TensorDataset
from torch.utils.data.datapipes.iter import IterableWrapper


class Longer(IterableDataset):
    """More than it says, of which torch warns once it has been asked."""

    def __len__(self):
        return 3

    def __iter__(self):
        return iter(range(5))


def main():
    places = []
    numbers = TensorDataset(torch.arange(64.0))
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        for workers in (0, 1):
            longer = DataLoader(Longer(), num_workers=workers)
            assert len(longer) == 3
            pinned = DataLoader(numbers, batch_size=8, shuffle=True, num_workers=workers, pin_memory=True)
            piped = DataLoader(IterableWrapper(range(4)), num_workers=workers)
            unordered = DataLoader(numbers, batch_size=8, shuffle=True, num_workers=workers, in_order=False)
            for loader in (longer, pinned, piped, unordered):
                for _ in loader:
                    pass
    for each in raised:
        places.append([os.path.basename(each.filename), each.lineno, str(each.message)[:24]])
    print(json.dumps(places))


if __name__ == "__main__":
    main()
