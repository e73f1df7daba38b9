"""Pipeline parallel training of a small GPT: torch.distributed.pipelining with the 1F1B schedule, over Tutti.

    torchrun --nproc-per-node 4 examples/torch/pipeline.py

Every rank has some of the layers. A batch is cut into micro-batches that follow each other through the ranks: forward
one way, gradients the other, each rank alternating between one forward and one backward pass. All of it is messages
between neighbours (batch_isend_irecv). Losses are compared with those of the same layers run one after the other.
"""

import torch
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

from gpt import CONTEXT, Block, Embedding, Shape, Text, loss_of
from job import Job, arguments


def stage_layers(text, rank, ranks, shape):
    """The layers of one rank; the first also embeds, the last also predicts."""
    layers = [Block(shape) for _ in range(shape.layers)]
    if rank == 0:
        layers.insert(0, Embedding(text.vocabulary, shape.width))
    if rank == ranks - 1:
        layers += [nn.LayerNorm(shape.width), nn.Linear(shape.width, text.vocabulary, bias=False)]
    return nn.Sequential(*layers)


def all_stages(text, ranks, shape, seed):
    """The same weights on every rank: made from the seed alone."""
    torch.manual_seed(seed)
    return [stage_layers(text, rank, ranks, shape) for rank in range(ranks)]


def train(job, options):
    text, shape = Text(), Shape(layers=options.layers)
    whole = nn.Sequential(*all_stages(text, job.size, shape, options.seed))
    mine = all_stages(text, job.size, shape, options.seed)[job.rank]
    stage = PipelineStage(mine, job.rank, job.size, torch.device("cpu"))
    schedule = Schedule1F1B(stage, n_microbatches=options.micro_batches, loss_fn=loss_of)
    optimizers = [torch.optim.SGD(each.parameters(), lr=options.rate) for each in (whole, mine)]
    job.say(f"{job.size} stages of {shape.layers} blocks, {options.micro_batches} micro-batches of "
            f"{options.batch // options.micro_batches} samples of {CONTEXT} characters")

    worst = 0.0
    for step in range(options.steps):
        inputs, targets = text.batch(options.seed, step, options.batch)
        for optimizer in optimizers:
            optimizer.zero_grad()
        expected = loss_of(whole(inputs), targets)
        expected.backward()
        losses = []
        if job.rank == 0:
            schedule.step(inputs)
        elif job.rank == job.size - 1:
            schedule.step(target=targets, losses=losses)
        else:
            schedule.step()
        for optimizer in optimizers:
            optimizer.step()
        # Only the last stage knows the loss.
        got = job.size * job.mean(torch.stack(losses).mean() if losses else torch.zeros(()))
        worst = max(worst, abs(got - expected.item()) / expected.item())
        if step % 5 == 0 or step == options.steps - 1:
            job.say(f"step {step:4}  loss {got:.6f}  one after the other {expected.item():.6f}")
    job.check(worst < 1e-4, f"the pipeline learns what the layers in sequence learn: losses differ by {worst:.1e}")
    far = max((a - b).abs().max().item()
              for a, b in zip(mine.parameters(), whole[job.rank].parameters(), strict=True))
    job.check(far < 1e-4, f"and its stages end with the same weights, but for {far:.1e}")


if __name__ == "__main__":
    given = arguments(__doc__, steps=15, batch=(8, "samples per step"), micro_batches=(4, "pieces of a batch"),
                      layers=(1, "blocks per rank"), rate=(0.1, "learning rate"))
    with Job(given) as the_job:
        train(the_job, given)
