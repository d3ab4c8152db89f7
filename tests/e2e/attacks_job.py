# SPDX-License-Identifier: MIT
"""
A job in default mode for attacks.py: data sets that may be shared, in programs that change what is
around them.  Prints all of its batches.

usage: attacks_job.py --case NAME --who N --place DIRECTORY [--then ...]...
"""

import collections
import contextlib
import hashlib
import os
import random
import sys

import numpy
import PIL.Image
import PIL.ImageFile
import torch
import torchvision.transforms.functional as TF
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset

import costs
import data_job
import meeting
from exact_zoo import Items, picture

try:
    import cv2
    cv2.setLogLevel(0)  # a file that is not there is no news
except ImportError:
    cv2 = None

CASES = {}
EPOCHS = 4
WORKER = {"num_workers": 1}


class Case:
    """
    A data set, and what the program does.

    .change  function(epoch) that is called before each epoch
    .around  function(epoch) that gives the context an epoch is in
    .use     function(batch) of a batch that was printed
    .loader  arguments of the loader
    """

    def __init__(self, data, change=None, around=None, use=None, **loader):
        self.data, self.change, self.around, self.use = data, change, around, use
        self.loader = {"batch_size": 8, "shuffle": True, **loader}


def case(function):
    """Decorator: the @function gives the Case of its name, for arguments()."""
    CASES[function.__name__] = function
    return function


def full(value):
    return torch.full((3, 32, 32), float(value))


# ---- files ----

def write(path, text):
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def read(path):
    with open(path, encoding="ascii") as file:
        return full(file.read())


def changing(options, name, change, when=(0, 2)):
    """(path, function(epoch)) of a file that both jobs read; one of them calls @change(path, epoch)
    while the other one waits, in the epochs @when: what is made after it serves another one,
    too."""
    path = os.path.join(options.place, name)

    def once(epoch):
        if epoch in when and (options.who == 0 or meeting.is_alone()):
            change(path, epoch)
        meeting.arrive()
    return path, once


def reading(path):
    return Items(lambda index: (read(path), index))


def write_old(path, number):
    """With times that a program can set."""
    write(path, str(number))
    os.utime(path, ns=(10 ** 18, 10 ** 18))


@case
def rewritten_in_place(options):
    """With size and times as they were."""
    path, once = changing(options, "rewritten", write_old)
    return Case(reading(path), once)


@case
def replaced_by_another(options):
    def change(path, epoch):
        write_old(path + ".new", epoch)
        os.replace(path + ".new", path)
    path, once = changing(options, "replaced", change)
    return Case(reading(path), once)


@case
def link_that_leads_elsewhere(options):
    def change(path, epoch):
        if epoch == 0:
            for number in "02":
                write_old(path + number, number)
        os.symlink(path + str(epoch), path + ".new")
        os.replace(path + ".new", path)
    path, once = changing(options, "link", change)
    return Case(reading(path), once)


@case
def other_working_directory(options):
    """Each of the jobs is where the other one was before."""
    def change(path, epoch):
        if epoch == 0:
            for number in "01":
                os.makedirs(path + number, exist_ok=True)
                write(os.path.join(path + number, "number"), number)
    path, once = changing(options, "directory", change)
    before = os.getcwd()

    @contextlib.contextmanager
    def around(epoch):
        os.chdir(path + str((epoch + options.who) % 2))
        yield
        os.chdir(before)
    return Case(reading("number"), once, around)


if cv2 is not None:
    @case
    def file_that_comes_and_goes(options):
        """OpenCV tells by no exception that there is none."""
        def change(path, epoch):
            if epoch == 1:
                cv2.imwrite(path, numpy.full((32, 32, 3), 7, numpy.uint8))
            else:
                os.unlink(path)
        path, once = changing(options, "comes.png", change, (1, 3))

        def make(index):
            found = cv2.imread(path)
            return (full(index) if found is None else torch.from_numpy(found).permute(
                2, 0, 1).float(), index)
        return Case(Items(make), once)


# ---- settings ----

def setting(options, setter, value, default):
    """What gives the context in which @setter was called with this @value, in the two jobs in turn."""
    @contextlib.contextmanager
    def around(epoch):
        setter(value if epoch % 2 == options.who else default)
        yield
        setter(default)
    return around


@case
def small_numbers_are_zero(options):
    little = full(1e-30)
    return Case(Items(lambda index: (little * 1e-10, index)),
                around=setting(options, torch.set_flush_denormal, True, False))


@case
def other_type_of_numbers(options):
    return Case(Items(lambda index: (torch.ones(3, 32, 32) / 3, torch.tensor(index / 3))),
                around=setting(options, torch.set_default_dtype, torch.float64, torch.float32))


@case
def errors_of_arithmetic(options):
    def make(index):
        return torch.from_numpy(numpy.full((3, 32, 32), 1.0) / (index % 3)), index
    return Case(Items(make), around=lambda epoch: numpy.errstate(
        divide="raise" if epoch % 2 == options.who else "ignore"))


@case
def other_digits(options):
    numbers = torch.arange(3) / 7
    return Case(Items(lambda index: (full(index), str(numbers))), around=setting(
        options, lambda digits: torch.set_printoptions(precision=digits), 2, 4))


def attribute(owner, name, value):
    """What gives the context in which @name of @owner has this @value in every other epoch."""
    @contextlib.contextmanager
    def around(epoch):
        before = getattr(owner, name)
        setattr(owner, name, value if epoch % 2 else before)
        yield
        setattr(owner, name, before)
    return around


def small_picture(options, name, part=1):
    """(the data set, the function of its Case) of a file of which only a part is there."""
    def change(path, epoch):
        if epoch == 0:
            picture(3).save(path)
            os.truncate(path, os.path.getsize(path) // part)
    path, once = changing(options, name, change)
    return Items(lambda index: (TF.to_tensor(PIL.Image.open(path).resize((32, 32))), index)), once


@case
def half_a_picture(options):
    return Case(*small_picture(options, "half.jpg", 2),
                attribute(PIL.ImageFile, "LOAD_TRUNCATED_IMAGES", True))


@case
def large_picture(options):
    return Case(*small_picture(options, "large.png"),
                attribute(PIL.Image, "MAX_IMAGE_PIXELS", 100))


@case
def other_precision(options):
    square = torch.arange(32. * 32).view(32, 32) / 1000
    return Case(Items(lambda index: (square @ square + index, index)),
                around=lambda epoch: torch.autocast("cpu", enabled=epoch % 2 == options.who))


@case
def inference(options):
    return Case(Items(lambda index: (full(index), index)), around=lambda epoch: (
        torch.inference_mode() if epoch % 2 == options.who else torch.no_grad()))


# ---- errors ----

@case
def errors_that_the_program_takes(options):
    def make(index):
        if index % 5 == 4:
            raise KeyError("no", index)
        return full(index), index
    return Case(Items(make), batch_size=4)


@case
def end_in_the_middle(options):
    def make(index):
        if index == 5:
            raise StopIteration(index)
        return full(index), index
    return Case(Items(make), batch_size=4)


# ---- samples ----

NAMES = [numpy.str_("%d\0" % number) for number in range(24)]
NAN = numpy.array([0x7fc00bad], numpy.uint32).view(numpy.float32)


@case
def kinds_of_values(options):
    def make(index):
        return {"array": numpy.ones((3, 2), numpy.float16).T * index,
                "back": numpy.arange(6)[::-1].copy()[::2], "nan": torch.from_numpy(NAN + 0),
                "small": full(index).bfloat16(), "none": torch.zeros(0, 3),
                "numpy": numpy.float32(index), "byte": numpy.uint8(index), "zero": -0.0,
                "yes": index > 3, "text": "x\ud800", "bytes": b"y\0", "name": NAMES[index],
                "channels": full(index).permute(1, 2, 0), "same": torch.ones(1).expand(4),
                "nested": [(index, [2.5]), {"a": (), "b": 1 << 40}]}
    return Case(Items(make))


@case
def one_tensor_twice(options):
    def make(index):
        value = full(index)
        return value, value, value[1:]
    return Case(Items(make))


@case
def one_list_twice(options):
    def make(index):
        value = [full(index)]
        return value, value
    return Case(Items(make))


@case
def ordered(options):
    return Case(Items(lambda index: collections.OrderedDict(image=full(index), index=index)))


@case
def views_of_what_it_holds(options):
    """The trainer changes each batch in place."""
    data = torch.ones(6, 3, 32, 32) * torch.arange(6).view(6, 1, 1, 1)
    return Case(Items(lambda index: (data[index % 6], index)), use=lambda batch: batch[0].mul_(3))


@case
def kinds_of_indices(options):
    data = Items(lambda index: (full(index), index))
    first = (numpy.int32, numpy.uint8)[options.who]
    return Case(ConcatDataset([Subset(data, numpy.arange(8, dtype=first)),
                               Subset(data, list(range(8))), Subset(data, torch.arange(8))]),
                batch_size=1, **WORKER)


# ---- programs ----

class Scaled(Dataset):
    """Each worker has another scale."""

    scale = 1

    def __len__(self):
        return 24

    def __getitem__(self, index):
        return full(index * self.scale), index


def scale(number):
    torch.utils.data.get_worker_info().dataset.scale = number + 2


@case
def worker_that_changes_the_data(options):
    return Case(Scaled(), num_workers=2, worker_init_fn=scale)


Pair = collections.namedtuple("Pair", "image index")


class Pairs(Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, index):
        return Pair(full(index), index)


@case
def memory_of_batches(options):
    def use(batch):
        print([(part.is_shared(), part.storage_offset(), part.stride(), len(part.storage()))
               for part in batch])
    return Case(Pairs(), use=use, **WORKER)


# ---- the job ----

def told(value):
    """All that can be told of @value."""
    kind = type(value).__name__
    if isinstance(value, torch.Tensor):
        plain = value.clone().view(torch.int16) if value.dtype is torch.bfloat16 else value
        return (kind, str(value.dtype), tuple(value.shape), value.stride(),
                value.is_inference(), hashlib.md5(plain.numpy().tobytes()).hexdigest())
    if isinstance(value, dict):
        return kind, [(key, told(part)) for key, part in value.items()]
    if isinstance(value, (list, tuple)):
        return kind, [told(part) for part in value]
    return kind, repr(value)


def batches(loader):
    """What it gives, and the exceptions that it raises, which the program takes."""
    iterator = iter(loader)
    for _ in range(len(loader) + 1):
        try:
            yield next(iterator)
        except StopIteration as error:
            yield "end", repr(error)
            return
        except Exception as error:
            yield type(error).__name__, repr(error)


def play(options):
    """A scene: all epochs of the case."""
    data_job.seed_all(1)
    made = CASES[options.case](options)
    loader = DataLoader(made.data, **made.loader)
    for epoch in range(EPOCHS):
        meeting.arrive()
        if made.change is not None:
            made.change(epoch)
        with made.around(epoch) if made.around is not None else contextlib.nullcontext():
            for number, batch in enumerate(batches(loader)):
                print(options.case, epoch, number, hashlib.md5(
                    repr(told(batch)).encode("utf-8", "surrogatepass")).hexdigest()[:12])
                if made.use is not None and type(batch[0]) is not str:
                    made.use(batch)
        print("draw", torch.rand(()).item(), random.random(), numpy.random.rand())
        sys.stdout.flush()


def arguments(words):
    # Which of the two jobs it is, and a directory for files.
    return data_job.options_of(words, case=tuple(CASES), who=int, place=str)


def main():
    first, *later = data_job.scenes(arguments)
    meeting.arrive()
    costs.install()
    data_job.play_all(first, later, play)


if __name__ == "__main__":
    main()
