"""Training with Hugging Face's accelerate, unchanged, over Tutti.

    pip install accelerate
    torchrun --nproc-per-node 2 examples/torch/accelerated_gpt.py

accelerate makes process groups of backends that it has on a list, and takes a group that is there as it is. So the
group is made first, by `init_process_group("tutti")` (here in Job); then comes `Accelerator(cpu=True)`. Without
`cpu=True` every rank would train alone where there is no GPU. A model under plain DistributedDataParallel takes the
same steps beside it: the weights must be the same, bit for bit.
"""

import copy

import torch
from accelerate import Accelerator
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

from gpt import GPT, Text, loss_of
from job import Job, arguments, digest


def batches(text, options, ranks):
    """Batch step * ranks + rank is this rank's at that step: accelerate deals out batches in turn."""
    parts = [text.batch(options.seed, step, options.batch, rank, ranks)
             for step in range(options.steps) for rank in range(ranks)]
    return TensorDataset(*(torch.cat(column) for column in zip(*parts, strict=True)))


def train(job, options):
    text = Text()
    accelerator = Accelerator(cpu=True)
    job.check(accelerator.num_processes == job.size, f"accelerate trains with all {job.size} ranks")
    first = GPT(text.vocabulary)
    plain = DistributedDataParallel(copy.deepcopy(first))
    plain_optimizer = torch.optim.AdamW(plain.parameters(), lr=options.rate)
    optimizer = torch.optim.AdamW(first.parameters(), lr=options.rate)
    loader = DataLoader(batches(text, options, job.size), batch_size=options.batch)
    model, optimizer, loader = accelerator.prepare(first, optimizer, loader)
    losses = []
    for step, (inputs, targets) in enumerate(loader):
        loss = loss_of(model(inputs), targets)
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(accelerator.reduce(loss.detach(), "mean").item())
        plain_optimizer.zero_grad()
        loss_of(plain(inputs), targets).backward()
        plain_optimizer.step()
        if step % 10 == 0 or step == options.steps - 1:
            job.say(f"step {step:4}  loss {losses[-1]:.6f}")
    job.check(losses[-1] < losses[0], f"the loss fell from {losses[0]:.3f} to {losses[-1]:.3f}")
    unwrapped = accelerator.unwrap_model(model)
    job.check(digest(unwrapped.parameters()) == digest(plain.parameters()), "both models have the same bits")
    job.check_same(unwrapped.parameters(), "the model")


if __name__ == "__main__":
    given = arguments(__doc__, steps=30, batch=(4, "samples per rank and step"), rate=(3e-3, "learning rate"))
    with Job(given) as the_job:
        train(the_job, given)
