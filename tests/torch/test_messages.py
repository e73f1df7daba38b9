"""Messages between two ranks: blocking, async, batched, from any source."""

import threading

import pytest
import torch
import torch.distributed as dist
from samples import MOVABLE, same, sample


def send_and_receive(rank, size):
    for dtype in MOVABLE:
        for shape in [(), (0,), (5,), (3, 4), (30_001,)]:
            for sender in range(size):
                receiver = (sender + 1) % size
                if rank == sender:
                    dist.send(sample(rank, shape, dtype), receiver, tag=3)
                elif rank == receiver:
                    tensor = torch.empty(shape, dtype=dtype)
                    assert dist.recv(tensor, sender, tag=3) == sender
                    assert same(tensor, sample(sender, shape, dtype)), (dtype, shape)


@pytest.mark.parametrize("size", [2, 3])
def test_send_and_receive(ranks, size):
    ranks(size, send_and_receive)


def any_source(rank, size):
    if rank == 0:
        seen = set()
        for _ in range(size - 1):
            tensor = torch.zeros(3)
            source = dist.recv(tensor)
            assert torch.all(tensor == source)
            seen.add(source)
        assert seen == set(range(1, size))
        work = dist.irecv(tensor, tag=4)
        work.wait()
        assert work._source_rank() == 1 and torch.all(tensor == 11)
    else:
        dist.send(torch.full((3,), float(rank)), 0)
        if rank == 1:
            dist.send(torch.full((3,), 11.0), 0, tag=4)


def test_any_source(ranks):
    ranks(4, any_source)


def tags_and_order(rank, size):
    if rank == 0:
        works = [dist.isend(torch.full((2,), float(i)), 1, tag=i % 3) for i in range(12)]
        for work in works:
            work.wait()
    else:
        tensors = {tag: [torch.zeros(2) for _ in range(4)] for tag in (2, 0, 1)}
        works = [dist.irecv(tensor, 0, tag=tag) for tag, own in tensors.items() for tensor in own]
        for work in works:
            work.wait()
        for tag, own in tensors.items():
            assert [int(tensor[0]) for tensor in own] == [tag, tag + 3, tag + 6, tag + 9]


def test_tags_and_order(ranks):
    ranks(2, tags_and_order)


def batches(rank, size):
    right, left = (rank + 1) % size, (rank - 1) % size
    for count in [0, 1, 4096, 300_000]:
        received, backwards = torch.zeros(count), torch.zeros(count, dtype=torch.int64)
        gaps = torch.zeros(count, 2)
        operations = [
            dist.P2POp(dist.isend, torch.full((count,), float(rank)), right),
            dist.P2POp(dist.irecv, received, left),
            dist.P2POp(dist.isend, torch.full((count,), rank * 2), left),
            dist.P2POp(dist.irecv, backwards, right),
            dist.P2POp(dist.isend, torch.full((count,), rank + 0.5), right, tag=5),
            dist.P2POp(dist.irecv, gaps[:, 1], left, tag=5),
        ]
        for work in dist.batch_isend_irecv(operations):
            work.wait()
        assert torch.all(received == left) and torch.all(backwards == right * 2)
        assert torch.all(gaps[:, 0] == 0) and torch.all(gaps[:, 1] == left + 0.5)


@pytest.mark.parametrize("size", [2, 3])
def test_batches(ranks, size):
    ranks(size, batches)


def two_threads(rank, size):
    """One thread waits for a message that the peer sends only after it has heard from the other thread."""
    peer = 1 - rank
    failures = []

    def listen():
        try:
            for round in range(50):
                tensor = torch.zeros(4)
                dist.recv(tensor, peer, tag=1)
                assert torch.all(tensor == round)
        except BaseException as error:
            failures.append(error)

    if rank == 0:
        listener = threading.Thread(target=listen)
        listener.start()
        for round in range(50):
            dist.send(torch.full((4,), float(round)), peer, tag=0)
        listener.join()
    else:
        for round in range(50):
            tensor = torch.zeros(4)
            dist.recv(tensor, peer, tag=0)
            dist.send(tensor, peer, tag=1)
    assert not failures, failures


def test_two_threads(ranks):
    ranks(2, two_threads)


def objects(rank, size):
    things = [None] * size
    dist.all_gather_object(things, {"rank": rank, "text": "x" * rank * 100})
    assert [thing["rank"] for thing in things] == list(range(size)) and len(things[-1]["text"]) == (size - 1) * 100
    box = [{"from": rank}, rank] if rank == 0 else [None, None]
    dist.broadcast_object_list(box, src=0)
    assert box == [{"from": 0}, 0]
    mine = [None]
    dist.scatter_object_list(mine, [f"for {r}" for r in range(size)] if rank == 0 else None, src=0)
    assert mine == [f"for {rank}"]
    gathered = [None] * size if rank == 0 else None
    dist.gather_object(("rank", rank), gathered, dst=0)
    assert rank != 0 or gathered == [("rank", r) for r in range(size)]
    if rank == 0:
        dist.send_object_list(["hello", 42], dst=1)
    elif rank == 1:
        received = [None, None]
        dist.recv_object_list(received, src=0)
        assert received == ["hello", 42]


def test_objects(ranks):
    ranks(3, objects)
