"""Python objects between ranks."""

import pytest
import tutti


def mine(rank):
    return {"rank": rank, "text": "x" * (rank * 1000), "set": {rank}}


def test_object_verbs(run, ranks):
    def job(comm):
        root, everyone = comm.size - 1, [mine(rank) for rank in range(comm.size)]
        assert comm.broadcast_object(mine(comm.rank), root) == everyone[root]
        assert comm.all_gather_object(mine(comm.rank)) == everyone
        gathered = comm.gather_object(mine(comm.rank), root)
        assert gathered == (everyone if comm.rank == root else None)
        assert comm.scatter_object(everyone if comm.rank == root else None, root) == everyone[comm.rank]
        assert comm.all_gather_object(None) == [None] * comm.size
    run(ranks, job)


def test_messages(run):
    def job(comm):
        if comm.rank:
            comm.send_object(mine(comm.rank), 0, tag=4)
        else:
            got = [comm.recv_object(tag=4) for _ in range(comm.size - 1)]
            assert sorted(value["rank"] for value in got) == [1, 2]
    run(3, job)


def test_what_cannot_be_pickled_says_so_before_anything_moves(run):
    def job(comm):
        with pytest.raises(Exception, match="pickle"):
            comm.all_gather_object(lambda: 0)
        with pytest.raises(tutti.InvalidArgumentError, match="2 objects for 1 ranks"):
            comm.scatter_object([1, 2])
        assert comm.all_gather_object(1) == [1]
    run(1, job)
