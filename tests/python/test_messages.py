"""Messages: tags, any source, both ways at once, batches, probes."""

import numpy as np
import pytest
import tutti
from dtypes import ALL, same, values


def test_every_type(run, transport):
    def job(comm):
        for dtype in ALL:
            if comm.rank == 0:
                assert comm.send(values(5, dtype), 1) is None
            else:
                out = np.zeros((6, 2), dtype)
                assert comm.recv(out, 0) == tutti.Received(0, 0, 12)
                assert same(out, values(5, dtype))
    run(2, job, transport=transport)


def test_tags_and_any_source(run):
    def job(comm):
        if comm.rank:
            comm.send(np.array([comm.rank, 1]), 0, tag=7)
            comm.send(np.array([comm.rank, 2]), 0, tag=8)
            return
        out = np.zeros(2, int)
        later = comm.recv(out, 1, tag=8)
        assert (later, out.tolist()) == ((1, 8, 2), [1, 2])
        sources = set()
        for _ in range(2):
            received = comm.recv(out, tutti.ANY_SOURCE, tag=7)
            assert out.tolist() == [received.source, 1]
            sources.add(received.source)
        assert sources == {1, 2}
        assert comm.recv(out, 2, tutti.ANY_TAG) == (2, 8, 2)
    run(3, job)


def test_send_recv_round_a_ring(run, transport):
    def job(comm):
        right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
        out = np.zeros(50_000)
        received = comm.send_recv(np.full(50_000, comm.rank, float), right, out, left)
        assert received == (left, 0, 50_000) and (out == left).all()
    run(4, job, transport=transport)


def test_probe(run):
    def job(comm):
        if comm.rank == 1:
            comm.send(np.arange(5, dtype="f4"), 0, tag=3)
            return
        assert comm.probe(tutti.ANY_SOURCE, tutti.ANY_TAG, "f4") == (1, 3, 5)
        assert comm.probe(1, 3).count == 20
        out = np.empty(5, "f4")
        comm.recv(out, 1, 3)
        assert out.tolist() == [0, 1, 2, 3, 4]
    run(2, job)


def test_batch(run):
    def job(comm):
        right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
        border, halo = np.full(3, comm.rank), np.zeros(3, int)
        with comm.batch() as batch:
            batch.send(border, right).recv(halo, left)
        assert halo.tolist() == [left] * 3
        works = comm.batch().send(border, right, 5).recv(halo, left, 5).start()
        assert [work.wait() for work in works] == [None, (left, 5, 3)]
        assert comm.batch().run() == []
    run(3, job)


def test_up_to(run, transport):
    def job(comm):
        right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
        for count in (0, 1, 7, 100_000):
            sent, out = np.arange(count), np.full((2, 50_000), -1)
            works = [comm.send(sent, right, tag, async_op=True) for tag in range(3)]
            assert comm.recv(out, left, 0, up_to=True) == (left, 0, count)
            assert out.ravel()[:count].tolist() == sent.tolist() and (out.ravel()[count:] == -1).all()
            assert comm.recv(out, tag=1, up_to=True, async_op=True).wait() == (left, 1, count)
            assert comm.batch().recv(out, left, tutti.ANY_TAG, up_to=True).run() == [(left, 2, count)]
            assert comm.send_recv(sent, right, out, left, 3, up_to=True) == (left, 3, count)
            for work in works:
                work.wait()
        alone = comm.split(comm.rank)
        alone.send(np.zeros(3), 0)
        with pytest.raises(tutti.MismatchError, match="of 3 float64.* of up to 2 float64"):
            alone.recv(np.zeros(2), 0, up_to=True)
    run(3, job, transport=transport)


def test_iprobe(run, transport):
    def job(comm):
        assert comm.iprobe() is None and comm.iprobe(comm.rank, tutti.ANY_TAG) is None
        comm.barrier()
        if comm.rank == 1:
            comm.send(np.arange(100_000), 0, tag=2)
            comm.send(np.arange(5, dtype="f4"), 0, tag=3)
            return
        while (found := comm.iprobe(tutti.ANY_SOURCE, 3, "f4")) is None:
            pass
        assert found == tutti.Received(1, 3, 5)
        out = np.empty(5, "f4")
        comm.recv(out, 1, 3)
        assert comm.iprobe(1, 3) is None and comm.iprobe(1, 2, int).count == 100_000
        comm.recv(np.empty(100_000, int), 1, 2)
    run(2, job, transport=transport)


def test_async_receive(run):
    def job(comm):
        if comm.rank == 0:
            out = np.zeros(4)
            work = comm.recv(out, 1, async_op=True)
            comm.barrier()
            assert work.wait() == (1, 0, 4) and out.tolist() == [1.0] * 4
            assert work.wait() == (1, 0, 4) and work.done()  # again is fine
        else:
            comm.barrier()
            comm.send(np.ones(4), 0)
    run(2, job)


def test_a_wrong_peer_is_refused(run):
    def job(comm):
        with pytest.raises(tutti.InvalidArgumentError):
            comm.send(np.ones(1), 2)
        with pytest.raises(tutti.InvalidArgumentError):
            comm.recv(np.ones(1), 0, tag=-5)
    run(2, job)
