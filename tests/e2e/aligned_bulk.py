# SPDX-License-Identifier: MIT
"""Alignment of data sets that make whole batches."""

import sys

if __name__ == "__main__":  # a job whose collate function makes tensors, views of them and other things
    # It looks whether each batch is as it was made, and stays so while later ones come.
    import torch
    from torch.utils.data import DataLoader, Dataset

    import costs
    import meeting

    costs.install()
    SIDE = 224

    class Numbers(Dataset):
        """An item is full of its own number and a random one."""

        def __len__(self):
            return 24

        def __getitem__(self, index):
            return torch.full((3, SIDE, SIDE), float(index)) + torch.rand(()), index

    kept_here = []  # of this worker

    def check_kept(made):
        """What the function keeps of the results of torch.stack() is not written to by later ones."""
        for tensor, copy in kept_here:
            assert torch.equal(tensor, copy)
        kept_here.append((made, made.clone()))

    def check_stacks(pictures):
        """As torch.cat() has it, which nobody gives memory to."""
        turned = [picture.permute(1, 2, 0) for picture in pictures]
        grey = [picture[:1] for picture in pictures]
        for parts, dim in ((pictures, 0), (tuple(pictures), 0), (pictures, 1), (turned, 0), (turned, -1),
                           (grey, 0), ([picture.int() for picture in pictures], 0), (pictures * 2, 0)):
            made = torch.stack(parts, dim) if dim else torch.stack(parts)
            wanted = torch.cat([part.unsqueeze(dim) for part in parts], dim)
            assert torch.equal(made, wanted) and made.dtype == wanted.dtype
            assert made.stride() == wanted.stride() and type(made) is torch.Tensor
            made.mul_(2)
            assert torch.equal(made, wanted * 2)
        sizes = [torch.zeros(3, SIDE, SIDE + number % 2) for number in range(len(pictures))]
        try:
            torch.stack(sizes)
        except RuntimeError:
            return
        raise AssertionError("tensors of different sizes were stacked")

    def collate(items):
        x = torch.stack([item for item, _ in items])
        if not kept_here:
            check_stacks([item for item, _ in items])
        check_kept(torch.stack([item for item, _ in items]))
        y = torch.tensor([index for _, index in items])
        return {"x": x, "view": x[1:], "y": y, "pair": (x.clone(), [y, "s"]),
                "turned": x.clone().transpose(0, 1), "none": None}

    def check(batch):
        assert list(batch) == ["x", "view", "y", "pair", "turned", "none"]
        assert type(batch["pair"]) is tuple and batch["pair"][1][1] == "s" and batch["none"] is None
        assert batch["view"].data_ptr() == batch["x"].data_ptr() + 4 * 3 * SIDE * SIDE
        assert torch.equal(batch["pair"][0], batch["x"])
        assert torch.equal(batch["turned"], batch["x"].transpose(0, 1))
        assert not batch["turned"].is_contiguous()
        for number, x in zip(batch["y"].tolist(), batch["x"]):
            assert number <= float(x.min()) == float(x.max()) < number + 1, number

    meeting.arrive()
    torch.set_num_threads(1)
    loader = DataLoader(Numbers(), 8, shuffle=True, num_workers=2, collate_fn=collate)
    kept = [batch for _ in range(4) for batch in loader]
    for batch in kept:
        check(batch)
    for batch in kept:
        print("batch", float(batch["x"].double().sum()), batch["y"].tolist())
    meeting.part()
    print("~", flush=True)
    sys.exit()

import support
from aligned_common import counter, samples, together
from aligned_zoo import ITEMS, aligned, job, two


def test_batches_made_at_once_are_shared_by_item():
    for kind in ("Batches", "Lists"):
        outcomes, shared = two(kind)
        assert samples(outcomes[0]) == samples(outcomes[1]), kind
        assert shared > ITEMS / 2, (kind, shared)


@support.whole
def test_batches_that_are_not_what_their_items_are_stay_whole():
    """Filled up, normed, or not to be had one by one; equal batches are shared all the same."""
    for kind in ("Padded", "Normed", "NotAlone"):
        with aligned() as group:
            outcomes = together([job(kind, "--epochs", 3)] * 2, group)
            shared = counter(group, "shared")
            assert group.statistics()["passed"]["torch_getitems"] > 0
        assert samples(outcomes[0]) == samples(outcomes[1]), kind
        assert shared > 0, kind


def test_what_a_collate_function_makes_arrives_as_it_was():
    """Large tensors by way of memory that is used again, what shares memory together."""
    command = [support.torch_python(), __file__]
    with aligned() as group:
        first, second = together([command] * 2, group)
        assert counter(group, "shared") > 0
    assert support.facts(first.output) == support.facts(second.output) != []
