"""A small GPT over characters, and the text it learns: what the examples of this folder share.

The layers have the names that PyTorch's strategies cut at: attention has one projection each for queries, keys and
values, so that tensor parallelism can give every rank some of the heads, and the head count is read off the width
that a rank has. Batches depend on (seed, step) alone: a rank takes its part of the batch that all ranks have in
mind, so the same numbers are learned from whatever the number of ranks.
"""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

CONTEXT = 64


@dataclass
class Shape:
    layers: int = 2
    heads: int = 4
    width: int = 64


class Attention(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.head_width = shape.width // shape.heads
        self.query = nn.Linear(shape.width, shape.width)
        self.key = nn.Linear(shape.width, shape.width)
        self.value = nn.Linear(shape.width, shape.width)
        self.out = nn.Linear(shape.width, shape.width)

    def forward(self, x):
        batch, length, _ = x.shape

        def heads(y):  # as many as this rank has
            return y.view(batch, length, -1, self.head_width).transpose(1, 2)

        query, key, value = heads(self.query(x)), heads(self.key(x)), heads(self.value(x))
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.out(seen.transpose(1, 2).reshape(batch, length, -1))


class FeedForward(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        return self.down(functional.gelu(self.up(x)))


class Block(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.before_attention = nn.LayerNorm(shape.width)
        self.attention = Attention(shape)
        self.before_feed_forward = nn.LayerNorm(shape.width)
        self.feed_forward = FeedForward(shape.width)

    def forward(self, x):
        x = x + self.attention(self.before_attention(x))
        return x + self.feed_forward(self.before_feed_forward(x))


class Embedding(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.characters = nn.Embedding(vocabulary, width)
        self.places = nn.Embedding(CONTEXT, width)

    def forward(self, tokens):
        return self.characters(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))


class GPT(nn.Module):
    def __init__(self, vocabulary, shape=None):
        super().__init__()
        shape = shape or Shape()
        self.embedding = Embedding(vocabulary, shape.width)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.last_norm = nn.LayerNorm(shape.width)
        self.out = nn.Linear(shape.width, vocabulary, bias=False)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.out(self.last_norm(x))


def loss_of(logits, targets):
    return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


class Text:
    """Characters of a file as numbers, and batches of it."""

    def __init__(self, file=None):
        text = Path(file or Path(__file__).with_name("text.txt")).read_text()
        letters = sorted(set(text))
        self.vocabulary = len(letters)
        number = {letter: i for i, letter in enumerate(letters)}
        self.tokens = torch.tensor([number[letter] for letter in text])

    def batch(self, seed, step, size, rank=0, ranks=1):
        """This rank's `size` of the ranks * size samples of a step: (inputs, targets)."""
        chance = torch.Generator().manual_seed(seed * 1_000_003 + step)
        begins = torch.randint(len(self.tokens) - CONTEXT - 1, (ranks * size,), generator=chance)
        begins = begins[rank * size:(rank + 1) * size]
        samples = torch.stack([self.tokens[begin:begin + CONTEXT + 1] for begin in begins.tolist()])
        return samples[:, :-1], samples[:, 1:]
