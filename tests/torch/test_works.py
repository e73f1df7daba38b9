"""Works: waiting, futures, order, threads, timeouts, and works that nobody asks about."""

import gc
import threading
import time
import warnings
import weakref
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist


def futures(rank, size):
    tensor = torch.ones(1000)
    work = dist.all_reduce(tensor, async_op=True)
    future = work.get_future()
    assert torch.all(future.wait()[0] == size) and future.done()
    assert future.value()[0].data_ptr() == tensor.data_ptr()
    assert work.is_completed() and work.result()[0].data_ptr() == tensor.data_ptr()
    # Callbacks, in a chain, of a work that nobody waits for otherwise.
    future = dist.all_reduce(torch.ones(5), async_op=True).get_future()
    doubled = future.then(lambda done: done.value()[0] * 2).then(lambda done: done.value() + 1)
    assert torch.all(doubled.wait() == 2 * size + 1)
    # A callback that calls again.
    again = dist.all_reduce(torch.ones(5), async_op=True).get_future().then(
        lambda done: dist.all_reduce(done.value()[0], async_op=True).get_future().wait()[0]
    )
    assert torch.all(again.wait() == size * size)
    outputs = [torch.zeros(2) for _ in range(size)]
    got = dist.all_gather(outputs, torch.full((2,), float(rank)), async_op=True).get_future().wait()
    assert [int(part[0]) for part in got] == list(range(size))
    # Asked for after the end, and waited for first.
    work = dist.all_reduce(tensor, async_op=True)
    work.wait()
    assert work.get_future().done()
    many = [dist.all_reduce(torch.full((n,), 1.0), async_op=True).get_future() for n in range(1, 40)]
    for n, future in enumerate(torch.futures.collect_all(many).wait(), 1):
        assert torch.equal(future.value()[0], torch.full((n,), float(size)))


@pytest.mark.parametrize("size", [1, 2, 3])
def test_futures(ranks, size):
    ranks(size, futures)


def unasked(rank, size):
    """Works that are dropped still end, and outputs with gaps are written."""
    gaps = torch.zeros(100, 2)
    gaps[:, 0] = 1
    dist.all_reduce(gaps[:, 0], async_op=True)
    for _ in range(20):
        dist.all_reduce(torch.ones(1000), async_op=True)
    dist.barrier()
    until = time.monotonic() + 30
    while gaps[0, 0] != size and time.monotonic() < until:
        time.sleep(0.001)
    assert torch.all(gaps[:, 0] == size)
    # A settled work keeps no tensors but its outputs.
    source = torch.ones(10)
    alive = weakref.ref(source.untyped_storage())
    output = torch.zeros(10 * size)
    work = dist.all_gather_into_tensor(output, source, async_op=True)
    work.wait()
    del source
    gc.collect()
    assert alive() is None


def test_unasked(ranks):
    ranks(2, unasked)


def threads_wait(rank, size):
    """Works of one group, waited for by many threads, in an order of their own."""
    tensors = [torch.full((50,), float(i)) for i in range(30)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    failures = []

    def wait_for(mine):
        try:
            for work in mine:
                work.wait()
        except BaseException as error:
            failures.append(error)

    order = works if rank == 0 else works[::-1]
    threads = [threading.Thread(target=wait_for, args=(order[i::5],)) for i in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert all(torch.all(tensor == i * size) for i, tensor in enumerate(tensors))


def test_threads_wait(ranks):
    ranks(3, threads_wait)


def polling(rank, size):
    tensor = torch.ones(7)
    work = dist.all_reduce(tensor, async_op=True)
    until = time.monotonic() + 60
    while not work.is_completed():
        assert time.monotonic() < until
        time.sleep(0)
    assert work.is_success() and torch.all(tensor == size)


def test_polling(ranks):
    ranks(2, polling)


def timeouts(rank, size):
    """wait(timeout) gives up waiting, not the call."""
    tensor = torch.zeros(3)
    if rank == 0:
        work = dist.irecv(tensor, 1)
        with pytest.raises(RuntimeError, match="still under way when the time given to wait"):
            work.wait(timedelta(milliseconds=50))
        dist.send(torch.ones(3), 1)
        assert work.wait(timedelta(seconds=60)) and torch.all(tensor == 5)
    else:
        dist.recv(tensor, 0)
        dist.send(torch.full((3,), 5.0), 0)
    dist.barrier()


def test_timeouts(ranks):
    ranks(2, timeouts)


def set_by_backend(timeout, group):
    group._get_backend(torch.device("cpu"))._set_default_timeout(timeout)


def set_by_options(timeout, group):
    group._get_backend(torch.device("cpu")).options._timeout = timeout


def set_by_function(timeout, group):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", category=FutureWarning)  # newer versions of PyTorch want another name
        dist.distributed_c10d._set_pg_timeout(timeout, group)


def set_publicly(timeout, group):
    dist.set_timeout(timeout, group)


def group_timeout(rank, size, setter, asynchronous):
    """A group's own deadline, set behind its first calls: rank 1 does not come, and all say so who look at it."""
    group = dist.new_group([0, 1], timeout=timedelta(seconds=60))
    backend = group._get_backend(torch.device("cpu"))
    assert backend.options.backend == "tutti" and backend.options._timeout == timedelta(seconds=60)
    dist.all_reduce(torch.ones(3), group=group)
    globals()[setter](timedelta(milliseconds=300), group)
    assert backend.options._timeout == timedelta(milliseconds=300)
    if rank == 0:
        began = time.monotonic()
        with pytest.raises(RuntimeError, match="timeout - rank 0, all_reduce #.*nothing moved for 300 ms.*rank 1 has not"):
            work = dist.all_reduce(torch.ones(3), group=group, async_op=asynchronous)
            if asynchronous:
                work.wait()
        assert time.monotonic() - began < 30
        with pytest.raises(RuntimeError, match="this communicator failed earlier"):
            dist.all_reduce(torch.ones(3), group=group)
    with pytest.raises(ValueError, match="a timeout is longer than nothing, not 0 ms"):
        set_by_backend(timedelta(0), group)
    assert backend.options._timeout == timedelta(milliseconds=300)
    dist.barrier()


@pytest.mark.parametrize("setter", ["set_by_backend", "set_by_options", "set_by_function", "set_publicly"])
def test_group_timeout(ranks, setter):
    if setter == "set_publicly" and not hasattr(dist, "set_timeout"):
        pytest.skip("this PyTorch has no dist.set_timeout")
    for asynchronous in (False, True):
        ranks(2, group_timeout, setter, asynchronous)


def options(rank, size):
    """What backend.options tells: as of PyTorch's own backends."""
    default = dist.distributed_c10d._get_default_group()._get_backend(torch.device("cpu")).options
    assert default.backend == "tutti" and default._timeout == timedelta(seconds=60)
    for name in ("gloo", "tutti"):
        group = dist.new_group([1, 2], backend=name, timeout=timedelta(seconds=33))
        if rank == 0:
            continue
        told = group._get_backend(torch.device("cpu")).options
        assert told.backend == name and told._timeout == timedelta(seconds=33)
        if hasattr(told, "group_name"):
            assert told.group_name == group.group_name and list(told.global_ranks_in_group) == [1, 2]


def test_options(ranks):
    ranks(3, options)


def sequence_numbers(rank, size):
    group = dist.group.WORLD
    before = group._get_sequence_number_for_group()
    dist.all_reduce(torch.ones(1))
    dist.barrier(async_op=True).wait()
    assert group._get_sequence_number_for_group() == before + 2
    assert group._get_backend(torch.device("cpu")).name() == "tutti" and dist.get_backend() == "tutti"


def test_sequence_numbers(ranks):
    ranks(2, sequence_numbers)
