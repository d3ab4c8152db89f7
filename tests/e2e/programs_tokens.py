# SPDX-License-Identifier: MIT
"""
A language model trained from a file of tokens, for programs.py: a memory map of 16-bit numbers,
windows of it at random places, a small transformer.
"""

import numpy
import torch

import programs_model

WIDTH, WINDOW, TOKENS = 32, 64, 512


class Windows(torch.utils.data.Dataset):
    """Window number i and the same one token later."""

    def __init__(self, path):
        self.tokens = numpy.memmap(path, dtype=numpy.uint16, mode="r")

    def __len__(self):
        return (len(self.tokens) - 1) // WINDOW

    def __getitem__(self, index):
        start = index * WINDOW
        window = torch.from_numpy(self.tokens[start:start + WINDOW + 1].astype(numpy.int64))
        return window[:-1], window[1:]


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(TOKENS, WIDTH)
        self.places = torch.nn.Embedding(WINDOW, WIDTH)
        self.layers = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(
            WIDTH, 2, 2 * WIDTH, dropout=0.1, batch_first=True), 1)
        self.head = torch.nn.Linear(WIDTH, TOKENS)
        self.register_buffer("mask", torch.full((WINDOW, WINDOW), float("-inf")).triu(1))

    def forward(self, tokens):
        hidden = self.embed(tokens) + self.places(torch.arange(WINDOW))
        return self.head(self.layers(hidden, self.mask))


def main():
    options = programs_model.parser().parse_args()
    torch.manual_seed(options.seed)
    loader = torch.utils.data.DataLoader(Windows(options.data), batch_size=16, shuffle=True,
                                         num_workers=options.workers)
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.001)
    for _ in range(options.epochs):
        for tokens, targets in loader:
            loss = torch.nn.functional.cross_entropy(
                model(tokens).flatten(0, 1), targets.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print("loss", float(loss.detach()).hex(), "tokens", int(tokens.sum()))
    print("weights", programs_model.digest(model))


if __name__ == "__main__":
    main()
