"""Chunks of different lengths, with counts given and asked for, and with displacements."""

import numpy as np
import pytest
import tutti
from dtypes import ALL, NUMBERS, joined, same, values


def rows_of(rank):
    return [2, 0, 3, 1][rank % 4]


def chunks_of(comm, dtype):
    return [values(rank, dtype, (rows_of(rank), 2)) for rank in range(comm.size)]


def test_gathering(run, ranks, transport):
    def job(comm):
        counts, root = [rows_of(rank) for rank in range(comm.size)], comm.size - 1
        for dtype in ALL:
            chunks = chunks_of(comm, dtype)
            whole = joined(chunks)
            for known in (None, counts):
                assert same(comm.all_gather_v(chunks[comm.rank], known), whole)
                gathered = comm.gather_v(chunks[comm.rank], known, root)
                assert same(gathered, whole) if comm.rank == root else gathered is None
    run(ranks, job, transport=transport)


def test_scattering(run, ranks, transport):
    def job(comm):
        counts, root = [rows_of(rank) for rank in range(comm.size)], comm.size - 1
        for dtype in ALL:
            chunks = chunks_of(comm, dtype)
            out = np.zeros_like(chunks[comm.rank])
            if comm.rank == root:
                comm.scatter_v(joined(chunks), counts, out, root)
            else:
                comm.scatter_v(None, None, out, root)
            assert same(out, chunks[comm.rank])
    run(ranks, job, transport=transport)


def test_reduce_scatter(run, ranks, transport):
    def job(comm):
        counts = [rows_of(rank) for rank in range(comm.size)]
        begin = sum(counts[:comm.rank])
        for dtype in NUMBERS:
            arrays = [values(rank, dtype, (sum(counts), 2)) for rank in range(comm.size)]
            total = arrays[0]
            for array in arrays[1:]:
                total = total + array
            mine = comm.reduce_scatter_v(arrays[comm.rank], counts)
            assert same(mine, total[begin:begin + counts[comm.rank]])
    run(ranks, job, transport=transport)


def test_all_to_all(run, ranks, transport):
    def job(comm):
        counts = [rows_of(comm.rank + peer) for peer in range(comm.size)]
        for dtype in ALL:
            sent = [values(comm.rank * 7 + peer, dtype, (counts[peer], 2)) for peer in range(comm.size)]
            expected = joined([values(peer * 7 + comm.rank, dtype, (counts[peer], 2))
                                       for peer in range(comm.size)])
            for known in (None, counts):
                assert same(comm.all_to_all_v(joined(sent), counts, known), expected)
    run(ranks, job, transport=transport)


def test_displacements(run):
    def job(comm):
        out = np.full((7, 2), -1)
        mine = np.full((1 + comm.rank, 2), comm.rank)
        assert comm.all_gather_v(mine, [1, 2, 3], out=out, displacements=[6, 0, 3]) is out
        assert out[:, 0].tolist() == [1, 1, -1, 2, 2, 2, 0]
        work = comm.all_gather_v(mine, [1, 2, 3], async_op=True)
        assert work.wait()[:, 0].tolist() == [0, 1, 1, 2, 2, 2]
    run(3, job)


def test_wrong_counts_are_refused(run):
    def job(comm):
        with pytest.raises(tutti.InvalidArgumentError, match="counts has 3 numbers; one per rank makes 2"):
            comm.all_gather_v(np.zeros(2), [1, 2, 3])
        with pytest.raises(tutti.InvalidArgumentError):
            comm.reduce_scatter_v(np.zeros(2), [2, 2])
        with pytest.raises(tutti.InvalidArgumentError, match="first axis"):
            comm.all_gather_v(np.array(1.0))
        assert comm.all_reduce(np.ones(1)).tolist() == [2.0]  # nothing was harmed
    run(2, job)
