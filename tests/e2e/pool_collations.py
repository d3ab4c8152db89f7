# SPDX-License-Identifier: MIT
"""More of pool_victim.py: what workers do with batches, and how much of everything is used."""

import collections
import os
import resource

import torch
import torch.multiprocessing as mp
from torch.utils.data import DataLoader, default_collate

from __main__ import LENGTH, Pictures, digest, loader, picture, pooled, right

Pair = collections.namedtuple("Pair", "left right")


class Nested(Pictures):
    def __getitem__(self, index):
        image = picture(index, self.epoch)
        return {"a": image, "b": [image + 1, (image.numpy() + 2, index)],
                "c": Pair(image.double(), "name"), "d": image[:, :1, :1].clone(), "e": 1.5}


def nested():
    for epoch in range(3):
        for batch in loader(Nested(epoch)):
            a, (b, (c, number)), pair = batch["a"], batch["b"], batch["c"]
            print(type(batch["b"]), type(pair), pair.right, number.tolist(), batch["e"].tolist(),
                  digest(a, b, c, pair.left, batch["d"]), right(a, number, epoch))


def stack(samples):
    return torch.stack([image for image, _ in samples]), torch.tensor([n for _, n in samples])


def custom():
    for epoch in range(3):
        for images, labels in loader(Pictures(epoch), collate_fn=stack):
            print(right(images, labels, epoch), images.is_shared())


def padded(samples):
    """Old recipes allocate as torch does, and what they do not write is zero."""
    image = samples[0][0]
    numel = image.numel() * 16
    storage = image.storage()._new_shared(numel)
    out = image.new(storage).resize_(16, *image.shape)
    for row, (one, _) in enumerate(samples):
        out[row] = one
    return out, len(samples)


def zeroed():
    for epoch in range(4):
        for images, count in loader(Pictures(epoch), collate_fn=padded):
            print(count, digest(images), float(images[count:].abs().sum()))


def viewed(samples):
    """Several tensors on one storage."""
    images, labels = default_collate(samples)
    return images, images[1:], images.transpose(1, 2), labels


def views():
    for epoch in range(3):
        for images, rest, turned, labels in loader(Pictures(epoch), collate_fn=viewed):
            print(right(images, labels, epoch), rest.storage_offset(), turned.stride())
            images[1, 0] = -3
            print(float(rest[0, 0].sum()), float(turned[1, :, 0].sum()),
                  images.storage().data_ptr() == rest.storage().data_ptr(), digest(turned))


class Keeping:
    """A worker that keeps its batches and looks at them again."""

    def __init__(self):
        self.kept = []

    def __call__(self, samples):
        images, labels = default_collate(samples)
        self.kept.append((images, labels))
        old = all(right(*item) for item in self.kept)
        if len(self.kept) == 4:
            del self.kept[:2]
        return images, labels, old


def worker_keeps():
    for _ in range(3):
        for images, labels, old in loader(collate_fn=Keeping(), workers=1):
            print(right(images, labels), bool(old))


class Again:
    """A worker that sends one batch again and again."""

    def __init__(self):
        self.batch = None

    def __call__(self, samples):
        self.batch = self.batch or default_collate(samples)
        return self.batch


def sent_again():
    kept = []
    for _ in range(3):
        for images, labels in loader(collate_fn=Again(), workers=1):
            kept.append((images, labels))
            print(right(images, labels))
            del kept[:-3]
    print([right(*item) for item in kept])


class Forking(Keeping):
    """A worker that forks while a batch is in use; the child checks it later."""

    def __call__(self, samples):
        images, labels = default_collate(samples)
        if int(labels[0]) % 16 == 0:
            told, tell = os.pipe()
            child = os.fork()
            if child == 0:
                os.read(told, 1)  # until the worker has come to the last batch
                os._exit(0 if right(images, labels) else 1)
            os.close(told)
            self.kept.append((child, tell))
        status = 0
        if int(labels[0]) == 48:
            for child, tell in self.kept:
                os.write(tell, b"x")
                os.close(tell)
                status += os.waitpid(child, 0)[1]
            del self.kept[:]
        return images, labels, status


def worker_forks():
    for _ in range(2):
        for images, labels, status in loader(collate_fn=Forking(), workers=1):
            print(right(images, labels), int(status))


class Telling:
    """A worker that sends its batches to a second process as well."""

    def __init__(self, queue):
        self.queue = queue

    def __call__(self, samples):
        images, labels = default_collate(samples)
        # Each queue moves in a thread of its own what is not shared yet; with plain torch, too,
        # two of them doing that to one tensor at once now and then leave zeros in it.
        labels.share_memory_()
        self.queue.put((images, labels))
        return images, labels


def listen(inbound, outbound):
    held = []
    for _ in range(2 * ((LENGTH + 7) // 8)):
        held.append(inbound.get())
        outbound.put(None)
    outbound.put([right(*item) for item in held])


def told_others():
    side, back = mp.Queue(), mp.Queue()
    other = mp.Process(target=listen, args=(side, back))
    other.start()
    for _ in range(2):
        # The worker stays until everybody has everything, as torch needs it, too.
        for images, labels in loader(collate_fn=Telling(side), workers=1):
            print(right(images, labels))
            back.get()
    print("others", back.get())
    other.join()


class Sized(torch.utils.data.Sampler):
    """Batches of many sizes."""

    def __init__(self):
        super().__init__(None)

    def __iter__(self):
        for size in (8, 3, 16, 8, 5, 32, 2, 40, 9, 8, 8, 33) * 2:
            yield list(range(size))


def sizes():
    for epoch in range(3):
        for images, labels in DataLoader(Pictures(epoch), batch_sampler=Sized(), num_workers=2):
            print(right(images, labels, epoch), digest(images))


class Labelled(Pictures):
    """More labels than a pool has files, which come before the image."""

    def __getitem__(self, index):
        labels = {"%02d" % number: torch.tensor([index + number]) for number in range(20)}
        return {**labels, "image": picture(index, self.epoch)}


def many_labels():
    for epoch in range(4):
        for batch in loader(Labelled(epoch)):
            images, numbers = batch.pop("image"), batch["00"][:, 0]
            print(right(images, numbers, epoch), images.is_shared(), [
                label.is_shared() and torch.equal(label[:, 0], numbers + number)
                for number, label in enumerate(batch.values())])
    print("~images", pooled(1 << 16))


def file_system():
    torch.multiprocessing.set_sharing_strategy("file_system")
    for epoch in range(2):
        for images, labels in loader(Pictures(epoch)):
            print(right(images, labels, epoch), images.is_shared())


def few_files():
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    kept = []
    for images, labels in loader(workers=1):
        kept.append((images, labels))
    print([right(*item) for item in kept])


# ---- use --------------------------------------------------------------------------------------


def use():
    """Open files and shared memory (mapped, in KB) of this process."""
    with open("/proc/self/smaps_rollup") as file:
        shared = [int(line.split()[1]) for line in file if line.startswith("Pss_Shmem")]
    return len(os.listdir("/proc/self/fd")), shared[0]


def bounded(epochs=None):
    epochs = epochs or int(os.environ.get("POOL_EPOCHS", "50"))
    highest, images = (0, 0), None
    for epoch in range(epochs):
        for number, (images, labels) in enumerate(loader(Pictures(epoch))):
            assert right(images[:1], labels[:1], epoch), epoch
            if epoch % 5 == 4 and number == 1:
                break
        if epoch % 7 == 3:
            if os.fork() == 0:
                os._exit(0)
            os.wait()
        if epoch == 9:
            early = use()
        highest = tuple(max(pair) for pair in zip(highest, use()))
    # 2 workers with at most 16 buffers of 393 KB.
    print(highest[0] < early[0] + 40, highest[1] < 32 * 400)
    print("~use", early, highest)


def spawn_bounded():
    os.environ["POOL_TEST_CHILD"] = "1"
    highest = (0, 0)
    for _ in range(6):
        for images, labels in loader(workers=1, multiprocessing_context="spawn"):
            assert right(images, labels)
        highest = tuple(max(pair) for pair in zip(highest, use()))
    print(highest[0] < 60, highest[1] < 32 * 400)
    print("~use", highest)
