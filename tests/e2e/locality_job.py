# SPDX-License-Identifier: MIT
"""
A distributed job as torchrun starts it, for locality_jobs.py: locality_job.py KIND DIRECTORY WORKERS; or
with a further word RANKS so many ranks in forks of this process.

Each rank writes into DIRECTORY a line for each step: epoch, the indices it was given, and, of all
ranks together, the indices and the loss.  The model's numbers are whole ones modulo 2^64, so a sum is
what it is in any order; weights follow from all gradients before.
"""

import json
import os
import sys

import torch
import torch.distributed
import torch.utils.data

SAMPLES, SIZE, EPOCHS, FEATURES = 403, 8, 3, 4


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        return torch.tensor([index] + [(index * 2654435761 >> 3 * column) % 1000 for column in range(FEATURES + 1)])


class Learner:
    """Writes down what it learns from."""

    def __init__(self, directory):
        self.rank, self.ranks = torch.distributed.get_rank(), torch.distributed.get_world_size()
        self.file = open(os.path.join(directory, str(self.rank)), "w", encoding="ascii")
        self.weights = torch.zeros(FEATURES, dtype=torch.int64)

    def step(self, epoch, batch):
        index, features, target = batch[:, 0], batch[:, 1:-1], batch[:, -1]
        off = features @ self.weights - target
        room = torch.full((SIZE + 1,), -1)
        room[:len(index)], room[-1] = index, len(index)
        gathered = [torch.empty_like(room) for _ in range(self.ranks)]
        torch.distributed.all_gather(gathered, room)
        sums = torch.cat([features.T @ off, (off * off).sum().reshape(1)])
        torch.distributed.all_reduce(sums)
        self.weights -= 3 * sums[:-1]
        everything = sorted(sum([one[:one[-1]].tolist() for one in gathered], []))
        print(json.dumps([epoch, index.tolist(), everything, sums[-1].item()]), file=self.file, flush=True)


def distributed(directory, workers):
    dataset = Numbers()
    sampler = torch.utils.data.distributed.DistributedSampler(dataset, seed=4)
    loader = torch.utils.data.DataLoader(dataset, SIZE, sampler=sampler, num_workers=workers,
                                         persistent_workers=workers > 0)
    learner = Learner(directory)
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        for batch in loader:
            learner.step(epoch, batch)


def accelerated(directory, workers):
    import accelerate
    accelerator = accelerate.Accelerator(cpu=True)
    loader = accelerator.prepare(torch.utils.data.DataLoader(Numbers(), SIZE, shuffle=True, num_workers=workers))
    learner = Learner(directory)
    for epoch in range(EPOCHS):
        for batch in loader:
            learner.step(epoch, batch)


def lightning(directory, workers):
    import lightning

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)
            self.learner = None

        def training_step(self, batch, _):
            self.learner = self.learner or Learner(directory)
            self.learner.step(self.current_epoch, batch)
            return self.layer(torch.ones(1, 1)).sum()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    trainer = lightning.Trainer(
        accelerator="cpu", devices=2, num_nodes=2, strategy="ddp", max_epochs=EPOCHS, logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
    weights = torch.ones(SAMPLES)
    loader = torch.utils.data.DataLoader(
        Numbers(), SIZE, num_workers=workers,
        sampler=torch.utils.data.WeightedRandomSampler(weights, SAMPLES, generator=torch.Generator().manual_seed(2)))
    trainer.fit(Module(), loader)


def rank(kind, directory, workers):
    torch.set_num_threads(1)
    torch.manual_seed(1)
    if kind != "lightning":
        torch.distributed.init_process_group("gloo")
    {"torch": distributed, "accelerate": accelerated, "lightning": lightning}[kind](directory, workers)
    torch.distributed.destroy_process_group()


def main():
    kind, directory, workers = sys.argv[1], sys.argv[2], int(sys.argv[3])
    ranks = int(sys.argv[4]) if sys.argv[4:] else 0
    children = []
    for number in range(ranks):
        children.append(os.fork())
        if children[-1] == 0:
            os.environ["RANK"] = os.environ["LOCAL_RANK"] = str(number)
            return rank(kind, directory, workers)
    if ranks:
        sys.exit(any([os.waitpid(child, 0)[1] for child in children]))
    return rank(kind, directory, workers)


if __name__ == "__main__":
    main()
