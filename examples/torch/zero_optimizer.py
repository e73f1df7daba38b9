"""Optimizer states cut over the ranks (ZeRO stage 1): ZeroRedundancyOptimizer, unchanged, over Tutti.

    torchrun --nproc-per-node 4 examples/torch/zero_optimizer.py

Gradients are averaged as in data parallel training; then every rank updates the weights it owns, with the only copy
of their Adam states, and broadcasts them. A model with an ordinary Adam is trained beside it: the weights must be
the same, bit for bit, at 1/p of the memory for states.
"""

import torch
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

from gpt import GPT, Text, loss_of
from job import Job, arguments, digest


def state_bytes(optimizer):
    return sum(value.nbytes for states in optimizer.state.values()
               for value in states.values() if torch.is_tensor(value))


def train(job, options):
    text = Text()
    first = GPT(text.vocabulary)
    second = GPT(text.vocabulary)
    second.load_state_dict(first.state_dict())
    models = [DistributedDataParallel(first), DistributedDataParallel(second)]
    ordinary = torch.optim.Adam(models[0].parameters(), lr=options.rate)
    zero = ZeroRedundancyOptimizer(models[1].parameters(), torch.optim.Adam, lr=options.rate)
    for step in range(options.steps):
        inputs, targets = text.batch(options.seed, step, options.batch, job.rank, job.size)
        for model, optimizer in zip(models, (ordinary, zero), strict=True):
            loss = loss_of(model(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        mean = job.mean(loss)
        if step % 10 == 0 or step == options.steps - 1:
            job.say(f"step {step:4}  loss {mean:.6f}")
    whole, cut = state_bytes(ordinary), state_bytes(zero.optim)
    job.say(f"Adam's states on rank 0: {cut / 1e3:.0f} KB instead of {whole / 1e3:.0f} KB")
    job.check(cut < 2 * whole / job.size, "the states are cut over the ranks")
    job.check(digest(first.parameters()) == digest(second.parameters()), "both models have the same bits")
    job.check_same(second.parameters(), "the model")


if __name__ == "__main__":
    given = arguments(__doc__, steps=30, batch=(4, "samples per rank and step"), rate=(3e-3, "learning rate"))
    with Job(given) as the_job:
        train(the_job, given)
