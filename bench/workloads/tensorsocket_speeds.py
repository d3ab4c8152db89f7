#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""The loop of speeds.py, fed by TensorSocket.  For bench/speeds.py."""
import argparse
import time

import speeds
import torch
from tensorsocket import TensorConsumer, TensorProducer
from tensorsocket_job import PackOnce, ports


def produce(options):
    """Epochs without end.  A message is one batch of a trainer, and two of the loader's."""
    loader = speeds.make_loader(options.items, options.batch // 2)
    producer = TensorProducer(loader, **ports(options), producer_batch_size=2,
                              pack_fn=PackOnce())
    while len(producer.hb.consumers) < options.trainers:
        time.sleep(.1)
    while True:
        for _ in producer:
            pass


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("role", choices=["produce", "receive"])
    parser.add_argument("--port", type=int, required=True, help="the first of four")
    parser.add_argument("--trainers", type=int, default=1, help="wait for so many")
    speeds.add_options(parser)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.role == "produce":
        produce(options)
    else:
        speeds.train(TensorConsumer(**ports(options), batch_size=options.batch), options)


if __name__ == "__main__":
    main()
