"""Fully sharded data parallel (FSDP2) training of a small GPT: fully_shard, unchanged, over Tutti.

    torchrun --nproc-per-node 4 examples/torch/fsdp2_gpt.py

Every rank keeps 1/p of every weight, gradient and optimizer state. A block's weights are brought together by
all_gather just before they are used and dropped afterwards; its gradients go back to their owners by
reduce_scatter. The example trains a whole copy of the model on the whole batch beside it, in every rank, and checks
that both learn the same.
"""

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from gpt import GPT, Text, loss_of
from job import Job, arguments


def sharded(model, ranks):
    mesh = init_device_mesh("cpu", (ranks,))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)  # a unit that is brought together as one
    return fully_shard(model, mesh=mesh)


def train(job, options):
    text = Text()
    whole = GPT(text.vocabulary)
    model = GPT(text.vocabulary)
    model.load_state_dict(whole.state_dict())
    model = sharded(model, job.size)
    optimizers = [torch.optim.AdamW(each.parameters(), lr=options.rate) for each in (whole, model)]
    kept = sum(p.to_local().numel() for p in model.parameters())
    job.say(f"rank 0 keeps {kept} of {sum(p.numel() for p in whole.parameters())} weights")

    worst = 0.0
    for step in range(options.steps):
        expected = loss_of(whole(text.batch(options.seed, step, options.batch * job.size)[0]),
                           text.batch(options.seed, step, options.batch * job.size)[1])
        inputs, targets = text.batch(options.seed, step, options.batch, job.rank, job.size)
        loss = loss_of(model(inputs), targets)
        for optimizer, value in zip(optimizers, (expected, loss), strict=True):
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
        mean = job.mean(loss)
        worst = max(worst, abs(mean - expected.item()) / expected.item())
        if step % 10 == 0 or step == options.steps - 1:
            job.say(f"step {step:4}  loss {mean:.6f}  of the whole model {expected.item():.6f}")
    job.check(worst < 1e-4, f"sharded and whole model learn the same: losses differ by at most {worst:.1e}")
    far = max((mine.full_tensor() - other).abs().max().item()
              for mine, other in zip(model.parameters(), whole.parameters(), strict=True))
    job.check(far < 0.02, f"and end with the same weights, but for {far:.1e}")


if __name__ == "__main__":
    given = arguments(__doc__, steps=30, batch=(4, "samples per rank and step"), rate=(1e-3, "learning rate"))
    with Job(given) as the_job:
        train(the_job, given)
