"""Data parallel training of a small GPT: DistributedDataParallel, unchanged, over Tutti.

    torchrun --nproc-per-node 4 examples/torch/ddp_gpt.py
    torchrun --nproc-per-node 4 examples/torch/ddp_gpt.py --backend gloo      # to compare
    torchrun --nproc-per-node 4 examples/torch/ddp_gpt.py --transport tcp     # the same bits
    torchrun --nproc-per-node 4 examples/torch/ddp_gpt.py --device cuda       # four ranks on one GPU, or on several

Every rank has the whole model and learns from its own part of each batch; the gradients are averaged by all_reduce,
in buckets, while the backward pass goes on. Over Tutti the same job gives the same bits every time, whatever the
transport: the hash in the last line is the same.
"""

import torch
from torch.nn.parallel import DistributedDataParallel

from gpt import GPT, Text, loss_of
from job import Job, arguments


def train(job, options):
    text = Text()
    model = DistributedDataParallel(GPT(text.vocabulary).to(job.device))
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.rate)
    losses = []
    for step in range(options.steps):
        batch = text.batch(options.seed, step, options.batch, job.rank, job.size)
        inputs, targets = (tensor.to(job.device) for tensor in batch)
        loss = loss_of(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()  # averages the gradients on the way
        optimizer.step()
        losses.append(job.mean(loss))
        if step % 10 == 0 or step == options.steps - 1:
            job.say(f"step {step:4}  loss {losses[-1]:.9f}")
    job.check(losses[-1] < losses[0], f"the loss fell from {losses[0]:.3f} to {losses[-1]:.3f}")
    job.check_same(model.parameters(), "the model")


if __name__ == "__main__":
    given = arguments(__doc__, steps=100, batch=(8, "samples per rank and step"), rate=(3e-3, "learning rate"),
                      device=("cpu", "where tensors lie: cpu or cuda"))
    with Job(given) as the_job:
        train(the_job, given)
