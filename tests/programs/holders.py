# SPDX-License-Identifier: MIT
"""
The ways in which programs hold their options: put around the data sets of a pipeline, so that what a
sweep varies (a rate, a seed, the name of a run) lies beside what an item reads (a limit).
"""

import argparse
import dataclasses
import sys

from torch.utils.data import DataLoader, Dataset, IterableDataset

ARGS = argparse.Namespace()


class CFG:
    """Settings as they stand at the head of many notebooks."""

    lr, seed, run, limit = None, None, "", 1


@dataclasses.dataclass
class Config:
    """As tyro, simple_parsing or HfArgumentParser fill it."""

    lr: float = 0.1
    seed: int = 0
    run: str = "none"
    limit: int = 1


class Held(Dataset):
    """It keeps all of them; the others are this one with other options."""

    def __init__(self, inner, options):
        self.inner, self.opt = inner, options

    def __len__(self):
        return len(self.inner)

    def limit(self):
        return self.opt.limit

    def __getitem__(self, index):
        assert self.limit() == 1
        return self.inner[index]


class Table(Held):
    def limit(self):
        return self.opt["data"]["limit"]


class Nested(Held):
    def limit(self):
        return self.opt.data.limit


class Global(Held):
    def __init__(self, inner, _):
        self.inner = inner

    def limit(self):
        return ARGS.limit


class Settings(Held):
    def __init__(self, inner, _):
        self.inner = inner

    def limit(self):
        return CFG.limit


class Parsed(Held):
    """It looks at the command line itself."""

    def __init__(self, inner, _):
        self.inner = inner
        self.words = len([word for word in sys.argv if word == "--limit"])

    def limit(self):
        return 1 + self.words


def _held(flat, _):
    return argparse.Namespace(**flat)


def _config(flat, _):
    return Config(**flat)


def _none(flat, _):
    vars(ARGS).update(flat)
    for name, value in flat.items():
        setattr(CFG, name, value)


def _tree(flat, nested):
    return {**flat, **nested}


def _omega(flat, nested):
    import omegaconf
    return omegaconf.OmegaConf.create({**flat, **nested})


HOLDERS = {"held": (Held, _held), "config": (Held, _config), "table": (Table, _tree),
           "omega": (Nested, _omega), "global": (Global, _none), "class": (Settings, _none),
           "argv": (Parsed, _none)}


def put_around(loaders, kind, options):
    """Let the data sets of these @loaders hold options as @kind of HOLDERS; whether there were any
    that could."""
    held, make = HOLDERS[kind]
    flat = {"lr": 0.1 * options.run, "seed": options.seed, "run": "of-%d" % options.run, "limit": 1}
    made = make(flat, {"data": {"limit": 1, "run": flat["run"]}, "model": {"lr": flat["lr"], "depth": 3}})
    found = [loader for loader in loaders if type(loader) is DataLoader
             and not isinstance(loader.dataset, IterableDataset)
             and not hasattr(loader.dataset, "__getitems__")]
    for loader in found:
        vars(loader)["dataset"] = held(loader.dataset, made)  # torch keeps others from doing that
    return bool(found)
