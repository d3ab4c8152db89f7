#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""The loop of samples.py, fed by TensorSocket: one producer that loads, trainers that receive.

This is how its README changes a script: the loader moves into a producer of its own, and the
trainers iterate a TensorConsumer in its place.  For bench/peers.py.
"""
import argparse
import sys
import time

import torch
import samples
from tensorsocket import TensorConsumer, TensorProducer
from tensorsocket.producer import pack


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("role", choices=["produce", "receive"])
    parser.add_argument("data", nargs="?", help="directory in ImageFolder layout")
    parser.add_argument("--port", type=int, required=True, help="the first of four")
    parser.add_argument("--size", type=int, help="samples of one epoch")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--trainers", type=int, default=1, help="wait for so many")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--pack-once", action="store_true",
                        help="put a batch that several trainers get into a message only once")
    arguments = parser.parse_args()
    arguments.kind = "train"
    return arguments


def ports(arguments):
    first = arguments.port
    return {"port": first, "ack_port": first + 1, "heart_ports": (first + 2, first + 3)}


class Lazy:
    """A loader whose workers begin when the first batch is asked for.

    The producer asks for the next epoch's iterator as soon as one epoch ends; its workers would
    load while the benchmark gives the machine to others.
    """

    def __init__(self, loader):
        self.loader = loader

    def __len__(self):
        return len(self.loader)

    def __iter__(self):
        yield from self.loader


class PackOnce:
    """A pack_fn that gives equal slices of a batch the same payload, which pickle then repeats
    by reference.  TensorSocket's own sends every trainer's copy to every trainer."""

    def __init__(self):
        self.where, self.packed = None, None

    def __call__(self, data):
        where = [(tensor.data_ptr(), tensor.shape, tensor._version) for tensor in data]
        if where != self.where:
            self.where, self.packed = where, pack(data)
        return self.packed


def produce(arguments):
    # A message carries all of its memory once for every batch cut from it, and the last one of an
    # epoch is never sent; so it should be one batch.  It must be two of the loader's, though.
    arguments.batch_size //= 2
    loader = samples.make_loader(arguments)
    producer = TensorProducer(Lazy(loader), **ports(arguments), producer_batch_size=2,
                              **({"pack_fn": PackOnce()} if arguments.pack_once else {}))
    while len(producer.hb.consumers) < arguments.trainers:
        time.sleep(0.1)
    print("ready", flush=True)
    for epoch, _ in enumerate(sys.stdin):
        for _ in producer:
            pass
        print(f"epoch {epoch}", flush=True)
    producer.join()


def main():
    arguments = parse_arguments()
    torch.set_num_threads(1)
    torch.manual_seed(arguments.seed)
    if arguments.role == "produce":
        produce(arguments)
    else:
        samples.run_epochs(TensorConsumer(**ports(arguments), batch_size=arguments.batch_size))


if __name__ == "__main__":
    main()
