"""A mixture of experts, one per rank, with two all_to_all_single per layer: expert parallelism over Tutti.

    torchrun --nproc-per-node 4 examples/torch/moe.py

A router sends every token to one expert. An expert takes at most `capacity factor` times its fair share from each
rank; tokens beyond that pass the layer unchanged, so every rank sends chunks of one size: one all_to_all brings
tokens to their experts, another brings them back. The backward pass runs the same two the other way round. Outputs
and gradients are compared with all experts computed in one place.
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional

from job import Job, arguments

WIDTH = 32


class AllToAll(torch.autograd.Function):
    """Chunk r of the result is our chunk of rank r's tensor. Its gradient takes the way back: the same call."""

    @staticmethod
    def forward(_, chunks):
        received = torch.empty_like(chunks)
        dist.all_to_all_single(received, chunks.contiguous())
        return received

    @staticmethod
    def backward(_, gradient):
        returned = torch.empty_like(gradient)
        dist.all_to_all_single(returned, gradient.contiguous())
        return returned


def expert():
    return nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))


class Route:
    """Which token goes to which expert, and where it lies in that expert's chunk."""

    def __init__(self, router, tokens, experts, capacity):
        weights, self.choice = functional.softmax(router(tokens), dim=-1).max(dim=-1)
        chosen = functional.one_hot(self.choice, experts)
        self.place = (chosen.cumsum(0) * chosen).sum(-1) - 1  # the how-manieth of its expert
        self.kept = (self.place < capacity).nonzero().squeeze(-1)
        self.weight = weights[self.kept].unsqueeze(-1)
        self.at = self.choice[self.kept] * capacity + self.place[self.kept]
        self.slots = experts * capacity

    def dispatch(self, tokens):
        return tokens.new_zeros(self.slots, tokens.shape[-1]).index_copy(0, self.at, tokens[self.kept])

    def combine(self, tokens, results):
        return tokens.index_add(0, self.kept, self.weight * results[self.at])


class Experts(nn.Module):
    """x + weight * expert(x), the expert being one of a rank each."""

    def __init__(self, ranks, capacity_factor):
        super().__init__()
        self.router = nn.Linear(WIDTH, ranks)  # the same on all ranks
        self.expert = expert()                 # this rank's own
        self.ranks, self.capacity_factor = ranks, capacity_factor

    def route(self, tokens):
        return Route(self.router, tokens, self.ranks, int(self.capacity_factor * len(tokens) / self.ranks))

    def forward(self, tokens):
        route = self.route(tokens)
        arrived = AllToAll.apply(route.dispatch(tokens))        # chunk r: rank r's tokens for our expert
        returned = AllToAll.apply(self.expert(arrived))         # chunk e: our tokens, as expert e left them
        return route.combine(tokens, returned), 1 - len(route.kept) / len(tokens)

    def in_one_place(self, tokens, experts):
        route = self.route(tokens)
        chunks = route.dispatch(tokens).chunk(self.ranks)
        return route.combine(tokens, torch.cat([one(chunk) for one, chunk in zip(experts, chunks, strict=True)]))


def compare(job, layer, everyone, samples):
    """Output and gradients of the first step, against all experts of all ranks computed here."""
    inputs = samples(0).requires_grad_()
    for parameter in layer.parameters():
        parameter.grad = None
    output, _ = layer(inputs)
    output.square().mean().backward()
    mine = [inputs.grad.clone()] + [p.grad.clone() for p in layer.expert.parameters()]
    # Our expert learns from the tokens of all ranks: so do the experts here.
    for rank in range(job.size):
        other = samples(0, rank).requires_grad_()
        result = layer.in_one_place(other, everyone)
        result.square().mean().backward()
        if rank == job.rank:
            right = torch.allclose(result, output, atol=1e-6)
            theirs = [other.grad]
    theirs += [p.grad for p in everyone[job.rank].parameters()]
    job.check(right, "the outputs are those of all experts in one place")
    job.check(all(torch.allclose(a, b, atol=1e-6) for a, b in zip(mine, theirs, strict=True)),
              "so are the gradients of inputs and expert")


def train(job, options):
    everyone = [expert() for _ in range(job.size)]  # drawn alike on all ranks; each keeps one
    layer = Experts(job.size, options.capacity_factor)
    layer.expert.load_state_dict(everyone[job.rank].state_dict())
    target = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH)).requires_grad_(False)

    def samples(step, rank=job.rank):
        chance = torch.Generator().manual_seed(options.seed * 7919 + step * job.size + rank)
        return torch.randn(options.tokens, WIDTH, generator=chance)

    compare(job, layer, everyone, samples)
    optimizer = torch.optim.Adam(layer.parameters(), lr=options.rate)
    losses = []
    for step in range(options.steps):
        tokens = samples(step)
        output, dropped = layer(tokens)
        loss = functional.mse_loss(output, target(tokens))
        optimizer.zero_grad()
        loss.backward()
        for parameter in layer.router.parameters():  # shared: averaged; an expert has one owner
            dist.all_reduce(parameter.grad)
            parameter.grad /= job.size
        for parameter in layer.expert.parameters():  # its gradient came from all ranks' losses
            parameter.grad /= job.size
        optimizer.step()
        losses.append(job.mean(loss))
        if step % 20 == 0 or step == options.steps - 1:
            job.say(f"step {step:4}  loss {losses[-1]:.6f}  tokens beyond capacity {100 * dropped:.0f} % on rank 0")
    job.check(losses[-1] < 0.8 * losses[0], f"the loss fell from {losses[0]:.3f} to {losses[-1]:.3f}")
    job.check_same(layer.router.parameters(), "the router")


if __name__ == "__main__":
    given = arguments(__doc__, steps=100, tokens=(256, "tokens per rank and step"),
                      capacity_factor=(1.25, "an expert's places over its fair share"), rate=(3e-3, "learning rate"))
    with Job(given) as the_job:
        train(the_job, given)
