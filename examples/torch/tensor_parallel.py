"""Tensor parallel training of a small GPT: parallelize_module with DTensor, unchanged, over Tutti.

    torchrun --nproc-per-node 2 examples/torch/tensor_parallel.py

Every rank has some of the heads and some of the hidden units: the first matrix of a pair is cut by columns, the
second by rows, so that one all_reduce per pair is enough in the forward pass and one in the backward pass. The
output layer is cut by columns and its result brought together by all_gather. Loss and gradients are compared with
the uncut model's.
"""

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from gpt import GPT, Shape, Text, loss_of
from job import Job, arguments


def cut(model, ranks):
    mesh = init_device_mesh("cpu", (ranks,))
    for block in model.blocks:
        parallelize_module(block, mesh, {
            "attention.query": ColwiseParallel(),
            "attention.key": ColwiseParallel(),
            "attention.value": ColwiseParallel(),
            "attention.out": RowwiseParallel(),
            "feed_forward.up": ColwiseParallel(),
            "feed_forward.down": RowwiseParallel(),
        })
    return parallelize_module(model, mesh, {"out": ColwiseParallel(output_layouts=Replicate())})


def full(tensor):
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def train(job, options):
    text = Text()
    shape = Shape(heads=max(4, job.size))
    whole = GPT(text.vocabulary, shape)
    model = GPT(text.vocabulary, shape)
    model.load_state_dict(whole.state_dict())
    model = cut(model, job.size)
    optimizers = [torch.optim.SGD(each.parameters(), lr=options.rate) for each in (whole, model)]

    worst = gradient_error = 0.0
    for step in range(options.steps):
        inputs, targets = text.batch(options.seed, step, options.batch)  # all ranks have the same batch
        losses = [loss_of(each(inputs), targets) for each in (whole, model)]
        for optimizer, loss in zip(optimizers, losses, strict=True):
            optimizer.zero_grad()
            loss.backward()
        if step == 0:
            apart = torch.stack([(full(mine.grad) - other.grad).norm()
                                 for mine, other in zip(model.parameters(), whole.parameters(), strict=True)])
            long = torch.stack([parameter.grad.norm() for parameter in whole.parameters()])
            gradient_error = (apart.norm() / long.norm()).item()
        for optimizer in optimizers:
            optimizer.step()
        expected, got = losses[0].item(), losses[1].item()
        worst = max(worst, abs(got - expected) / expected)
        if step % 5 == 0 or step == options.steps - 1:
            job.say(f"step {step:4}  loss {got:.6f}  of the uncut model {expected:.6f}")
    job.check(worst < 1e-4, f"cut and uncut model learn the same: losses differ by at most {worst:.1e}")
    job.check(gradient_error < 1e-5, f"gradients of the first step differ by {gradient_error:.1e}")


if __name__ == "__main__":
    given = arguments(__doc__, steps=20, batch=(8, "samples per step"), rate=(0.1, "learning rate"))
    with Job(given) as the_job:
        train(the_job, given)
