# SPDX-License-Identifier: MIT
"""What trainers do with batches.  An ordinary program, but for its first argument.

usage: pool_victim.py 0|1 SCENARIO     0: plain torch, 1: with the hand-over pool

Lines that begin with ~ may differ between the two.
"""

import collections
import hashlib
import os
import resource
import signal
import sys
import threading
import time
import warnings

import numpy
import torch
import torch.multiprocessing as mp
from torch.utils.data import DataLoader, Dataset, IterableDataset, default_collate

ON = len(sys.argv) > 1 and sys.argv[1] == "1"
if ON or "POOL_TEST_CHILD" in os.environ:
    sys.path.insert(0, os.environ["POOL_PACKAGE"])
    from tsshim_torch.handover import pool
    pool.install()

warnings.simplefilter("ignore")  # of torch about the number of cores
SHAPE = (3, 64, 64)
LENGTH = 52  # seven batches of eight, the last of four


class Pictures(Dataset):
    """Every picture is its number and its epoch; the batch of eight is 393 KB."""

    def __init__(self, epoch=0):
        self.epoch = epoch

    def __len__(self):
        return LENGTH

    def __getitem__(self, index):
        return picture(index, self.epoch), index


def picture(index, epoch=0):
    values = torch.arange(3 * 64 * 64, dtype=torch.float32).view(SHAPE)
    return values * (index + 1) + epoch


def digest(*tensors):
    """Short hash of values."""
    joined = hashlib.sha256()
    for tensor in tensors:
        joined.update(numpy.ascontiguousarray(tensor).tobytes())
    return joined.hexdigest()[:16]


def right(images, labels, epoch=0):
    """Are these the pictures of these numbers?"""
    return all(torch.equal(image, picture(int(label), epoch))
               for image, label in zip(images, labels))


def loader(dataset=None, workers=2, **more):
    return DataLoader(dataset or Pictures(), batch_size=8, num_workers=workers, **more)


def deliveries():
    """How many tensors came through the pool."""
    ours = sys.modules.get("tsshim_torch.handover.pool")  # as the library brings it, too
    return ours._inbox._deliveries if ours and ours._inbox else 0


def pooled(nbytes):
    """How many buffers of @nbytes and more there are here."""
    pools = pool._inbox._pools.values() if ON and pool._inbox else ()
    return sum(buffer.nbytes >= nbytes for one in pools for buffer in one.buffers.values())


# ---- what happens to batches ------------------------------------------------------------------


def kept():
    epochs = [list(loader(Pictures(epoch))) for epoch in range(3)]
    for epoch, batches in enumerate(epochs):
        for images, labels in batches:
            print(digest(images, labels), right(images, labels, epoch))


def plain():
    for epoch in range(4):
        for images, labels in loader(Pictures(epoch), shuffle=False):
            print(digest(images), right(images, labels, epoch))


def inplace():
    for epoch in range(3):
        for images, labels in loader(Pictures(epoch)):
            ok = right(images, labels, epoch)
            images.mul_(2).add_(1)
            print(ok, digest(images))


def hold(inbound, outbound):
    """A process that keeps and changes what it is sent."""
    held = []
    while True:
        item = inbound.get()
        if item is None:
            break
        item[0, 0] = -1
        held.append(item)
        outbound.put(len(held))
    outbound.put([digest(item) for item in held])
    inbound.get()


def sent_on():
    to, back = mp.Queue(), mp.Queue()
    other = mp.Process(target=hold, args=(to, back))
    other.start()
    for epoch in range(3):
        for images, _ in loader(Pictures(epoch)):
            alias = images.numpy()
            to.put(images)
            back.get()
            print(digest(images), alias[0, 0, 0, 0], images.is_shared())
            alias[0, 0] = 5
            images[0, 1] = 6
            print(digest(images))
    to.put(None)
    print(back.get())
    to.put(None)
    other.join()


def aliased():
    arrays = []
    for epoch in range(3):
        for images, labels in loader(Pictures(epoch)):
            arrays.append((epoch, images[2:4].numpy(), labels[2:4]))
    for epoch, array, labels in arrays:
        print(digest(array), right(torch.from_numpy(array), labels, epoch))


def forked():
    results = []
    for epoch in range(3):
        for number, (images, labels) in enumerate(loader(Pictures(epoch))):
            if number % 3 == 0:
                (read, write), (told, tell) = os.pipe(), os.pipe()
                child = os.fork()
                if child == 0:
                    os.read(told, 1)  # until the parent is long past this batch
                    os.write(write, repr((digest(images), right(images, labels, epoch))).encode())
                    os._exit(0)
                results.append((child, read, tell))
    del images
    for child, read, tell in results:
        os.write(tell, b"x")
        print(os.read(read, 100).decode())
        os.waitpid(child, 0)


def labels_kept():
    numbers = []
    for epoch in range(3):
        for images, labels in loader(Pictures(epoch)):
            print(right(images, labels, epoch))
            numbers.append(labels)
    print(torch.cat(numbers).tolist())


class Filling(Pictures):
    """From the first item on /dev/shm is full; of the first batches torch wants some of it for labels."""

    def __getitem__(self, index):
        if index == 0 and "FILL" in os.environ:
            with open("/dev/shm/full", "wb", buffering=0) as file:
                try:
                    while file.write(bytes(4096)) == 4096:
                        pass
                except OSError as error:
                    print("~", error, flush=True)
        return super().__getitem__(index)


def full():
    for images, labels in loader(Filling(), workers=1):
        print(right(images, labels), digest(images), labels.tolist())


def properties():
    for images, labels in loader():
        print(images.is_shared(), images.storage().is_shared(), images.stride(),
              images.storage().size(), images.storage_offset(), images.is_pinned(),
              images.requires_grad, images.is_contiguous(), type(images), labels.is_shared())
        for size in (images.numel() + 1, 2 * images.numel()):
            try:
                images.resize_(size)
            except RuntimeError as error:
                print("RuntimeError", str(error).split("\n")[0])
        print(images.share_memory_().is_shared(), images.resize_(2, 3).tolist())


# ---- how loaders end --------------------------------------------------------------------------


def broken_off():
    for epoch in range(12):
        for number, (images, labels) in enumerate(loader(Pictures(epoch))):
            print(right(images, labels, epoch), digest(images))
            if number == epoch % 4:
                break


def dropped():
    kept_one = []
    for epoch in range(12):
        iterator = iter(loader(Pictures(epoch)))
        images, labels = next(iterator)
        if epoch % 3 == 0:
            kept_one.append((epoch, images, labels))
        print(right(images, labels, epoch))
        del iterator
    print([right(images, labels, epoch) for epoch, images, labels in kept_one])


def killed():
    for turn in range(3):
        iterator = iter(loader(workers=1))
        print(right(*next(iterator)))
        pid = iterator._workers[0].pid
        try:
            os.kill(pid, signal.SIGKILL)
            time.sleep(60)  # torch's signal handler raises
            print("nothing raised")
        except RuntimeError as error:
            print("RuntimeError", str(error).replace(str(pid), "PID"))
        del iterator
        print([right(*batch) for batch in loader(workers=1)])


class Counting(Pictures):
    """Counts its epochs in the worker, where persistent workers keep it."""

    def __getitem__(self, index):
        if index == 0:
            self.epoch += 1
        return super().__getitem__(index)


def persistent():
    batches = loader(Counting(), workers=1, persistent_workers=True)
    for epoch in range(1, 9):
        for number, (images, labels) in enumerate(batches):
            print(right(images, labels, epoch))
            if epoch % 3 == 0 and number == 2:
                break


class Busy(Dataset):
    """Items of several blocks of about one size, which tell how many page faults each took."""

    def __init__(self, count, size):
        self.count, self.size = count, size

    def __len__(self):
        return 100

    def __getitem__(self, index):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        blocks = [numpy.ones(self.size, numpy.uint8) for _ in range(self.count)]
        del blocks
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def faults(count=6, size=1 << 20):
    """The first items make the heap as long as it gets."""
    found = torch.cat(list(loader(Busy(count, size), workers=1))).tolist()
    print("~faults", sum(found[20:]))


def large_faults():
    """A photograph of four megapixels and what is cut out of it, as Pillow has them."""
    faults(2, 15 << 20)


def spawned(method="spawn"):
    os.environ["POOL_TEST_CHILD"] = "1"
    for epoch in range(2):
        for images, labels in loader(Pictures(epoch), workers=1, multiprocessing_context=method):
            print(right(images, labels, epoch), digest(images))


def forkserver():
    spawned("forkserver")


def interleaved():
    first, second = loader(Pictures(1)), loader(Pictures(2), workers=1)
    for _ in range(3):
        for (images, labels), (others, numbers) in zip(first, second):
            print(right(images, labels, 1), right(others, numbers, 2))


def threads():
    """One thread receives while another forks children that look at what there is."""
    shared, results = [], []
    received = mp.RawArray("q", 2)  # batches, and whether that is all

    def receive():
        for epoch in range(24):
            for images, labels in loader(Pictures(epoch)):
                shared.append((images, labels, epoch))
                del shared[:-2]
                received[0] += 1
        received[1] = 1

    thread = threading.Thread(target=receive)
    thread.start()
    while thread.is_alive():
        child = os.fork()
        if child == 0:
            before = received[0]
            while received[0] < before + 16 and not received[1]:
                time.sleep(0.01)  # the parent's thread goes on
            end = all(right(*item) for item in list(shared))
            os._exit(0 if end else 1)
        results.append(os.waitpid(child, 0)[1])
    thread.join()
    print(set(results))


# ---- what workers do with batches ----

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


# ---- batches that are not collated, or by a function of the program's ----


class Marked(torch.Tensor):
    """A subclass of the program's, whose tensors say more."""

    @classmethod
    def of(cls, tensor, note):
        made = tensor.as_subclass(cls)
        made.note = note
        return made


def some(index):
    """Tensors of all kinds, each with memory of its own."""
    whole = picture(index)
    return {
        "plain": whole, "view": picture(index)[1:], "turned": picture(index).permute(1, 2, 0),
        "strided": picture(index)[:, ::2, ::3], "bytes": (picture(index) % 251).byte(),
        "half": picture(index).bfloat16(), "bool": picture(index) > 9, "label": torch.tensor(index),
        "none": torch.empty(0), "empty": torch.empty(4, 0, 2), "wide": torch.full((1,), 2.5).expand(3, 5),
        "leaf": picture(index).requires_grad_(), "weight": torch.nn.Parameter(picture(index)),
        "marked": Marked.of(picture(index), index), "conj": torch.full((3,), 1 + index * 1j).conj(),
        "array": torch.from_numpy(numpy.full((3, index + 1), index)), "typed": picture(index).storage(),
        "pair": Pair(picture(index), [torch.ones(3) * index]),
    }


def kind_of(tensor):
    """All that can be told of @tensor but its address."""
    return (type(tensor), tensor.dtype, tuple(tensor.shape), tensor.stride(), tensor.storage_offset(),
            tensor.storage().size(), tensor.is_shared(), tensor.requires_grad, tensor.is_leaf,
            tensor.is_conj(), tensor.is_pinned(), digest(tensor.detach().float().abs()))


def told(value):
    if isinstance(value, torch.Tensor):
        return kind_of(value)
    if isinstance(value, dict):
        return [(key, told(part)) for key, part in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value), [told(part) for part in value]
    return type(value), len(value), value.is_shared(), digest(torch.tensor(value.tolist()))


class Made(Dataset):
    """Whole batches, as the data set has made them."""

    def __init__(self, make, count=12):
        self.make, self.count = make, count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return self.make(index)


class Flow(IterableDataset):
    """The same from a generator, which has its last item until it is asked for another one."""

    def __init__(self, make, count=12):
        self.make, self.count = make, count

    def __iter__(self):
        for index in range(self.count):
            made = self.make(index)
            yield made


def whole(dataset, **more):
    return DataLoader(dataset, batch_size=None, num_workers=1, **more)


def made():
    for _ in range(2):
        for batch in whole(Made(some)):
            print(told(batch))


def flowing():
    for batch in whole(Flow(some)):
        print(told(batch))


def steady():
    """All but the first two, as the worker keeps none."""
    for dataset in (Made(picture, 40), Flow(picture, 40)):
        for batch in whole(dataset):
            print(told(batch))


def own():
    for batch in DataLoader(Made(some), batch_size=2, num_workers=1, collate_fn=Pair._make):
        print(told(batch))


def together(index):
    """Several tensors on one memory: what is written to one of them is read from the others."""
    image = picture(index)
    return [image, (image[1:], {"turned": image.transpose(1, 2)}), image.flatten()]


def in_common():
    for image, (rest, other), flat in whole(Made(together)):
        image[1, 0] = -3
        flat[-1] = 7
        print(told([image, rest, other["turned"], flat]), len(
            {tensor.storage().data_ptr() for tensor in (image, rest, other["turned"], flat)}))


def many(index):
    return [torch.full((300 + number,), index + number) for number in range(40)], picture(index)


def tensors_by_the_dozen():
    for small, image in whole(Flow(many, 24)):
        print([told(tensor) for tensor in small], told(image))


def of_size(index):
    return torch.full((1 << (2 * index),), index, dtype=torch.uint8)


def all_sizes():
    """From one byte to 4 MB, each three times."""
    for batch in whole(Flow(lambda index: of_size(index // 3), 36)):
        print(told(batch))


class Kept(Made):
    """A worker that keeps what it sends, in one way or another."""

    def __init__(self):
        super().__init__(None)
        self.ready = [(picture(index), {"label": torch.tensor([index])}) for index in range(12)]
        self.rows = torch.arange(12 * 600.).view(12, 600)

    def __getitem__(self, index):
        return [self.ready[index], self.rows[index], self.ready[index][0].sum(), picture(index)]


def worker_has_it():
    """
    What the trainer writes to such a tensor is there when the worker sends it again: in the next
    epoch, as long as the worker lives.
    """
    batches = whole(Kept(), persistent_workers=True)
    for _ in range(3):
        epoch = list(batches)
        for (image, labels), row, total, fresh in epoch:
            print(told([image, labels["label"], row, total, fresh]))
        for (image, labels), row, _, fresh in epoch:
            for tensor in (image, labels["label"], row, fresh):
                tensor.add_(1)


def refilled():
    """A generator with one buffer for all its items: at the end, all of them are the last one."""
    buffer = torch.zeros(SHAPE)
    kept = list(whole(Flow(lambda index: buffer.copy_(picture(index)))))
    print([told(batch) for batch in kept])


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
    made()


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


if __name__ == "__main__":
    globals()[sys.argv[2]]()
    print("~deliveries", deliveries())
