# SPDX-License-Identifier: MIT
"""What the trainer does once for the workers of all epochs, so that none of them does it again."""
import json
import os
import sys

import support
import warm
from aligned_common import well
from exact import Pictures

EPOCHS = 3


def told(case):
    """What the job below says of its workers, each of an epoch, and of itself."""
    command = [support.torch_python(), os.path.abspath(__file__), case, Pictures.path()]
    outcome = well(warm.run(command, LD_PRELOAD=support.LIBRARY, TSSHIM_ALIGN="7", TSSHIM_RING="0",
                            TSSHIM_GROUP="e2e-new-%d" % os.getpid()))
    return json.loads(support.facts(outcome.output)[-1])


def test_a_new_worker_tries_no_generators_and_reads_no_source():
    found = told("folder")
    assert len(found["untried"]) == EPOCHS, found
    assert found["tried"] == 0 and found["read"] == 0, found


def test_items_that_keep_nothing_are_not_looked_at_again_by_the_workers_of_later_epochs():
    assert told("folder")["untried"] == [True, False, False]


def test_items_that_may_keep_something_are_looked_at_by_each_worker():
    assert told("keeps")["untried"] == [True, True, True]


def test_a_data_set_that_was_changed_is_looked_at_by_the_next_worker():
    assert told("changed")["untried"] == [True, False, True]


def test_the_trainer_loads_the_formats_of_pictures_unless_the_program_has_registered_one():
    assert {"JPEG", "PNG"} < set(told("folder")["formats"])
    assert told("registers")["formats"] == ["OWN"]


def main(case, where):
    import linecache

    import PIL.Image
    from torch.utils.data import DataLoader
    from torchvision import datasets, transforms
    from tsshim_torch.sharing.batch import aligned
    from tsshim_torch.sharing.item import private

    class Keeps(datasets.ImageFolder):
        """Notes which items there were."""

        def __getitem__(self, index):
            self.seen = index
            return super().__getitem__(index)

    trainer, firsts, formats = os.getpid(), [], []
    reader, writer = os.pipe()

    def counted(module, name, word):
        """Let it be told when a worker calls this function."""
        function = getattr(module, name)

        def call(*arguments):
            if os.getpid() != trainer:
                os.write(writer, word.encode() + b"\n")
            return function(*arguments)
        setattr(module, name, call)

    def item(self, *arguments, **more):
        if os.getpid() not in firsts:
            firsts.append(os.getpid())
            os.write(writer, b"untried\n" if self.scope.is_untried else b"known\n")
        return own_item(self, *arguments, **more)

    counted(private, "_is_right", "tried")
    counted(linecache, "updatecache", "read")
    own_item, aligned.Drawn._item = aligned.Drawn._item, item
    if case == "registers":
        PIL.Image.register_open("OWN", None, lambda head: False)
    dataset = (Keeps if case == "keeps" else datasets.ImageFolder)(where, transforms.Compose(
        [transforms.RandomCrop(64), transforms.ToTensor()]))
    for epoch in range(EPOCHS):
        if case == "changed" and epoch == 2:
            dataset.transform = transforms.Compose([transforms.CenterCrop(64), transforms.ToTensor()])
        for batch, _ in DataLoader(dataset, 16, shuffle=True, num_workers=1):
            formats = formats or list(PIL.Image.ID)
            assert batch.shape[1:] == (3, 64, 64)
    os.close(writer)
    lines = os.fdopen(reader).read().split()
    print(json.dumps({"tried": lines.count("tried"), "read": lines.count("read"), "formats": formats,
                      "untried": [line == "untried" for line in lines if line in ("untried", "known")]}))


if __name__ == "__main__":
    main(*sys.argv[1:])
