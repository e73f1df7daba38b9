"""What goes wrong is said with words that help, and never hangs."""

import os
import signal

import pytest
import torch
import torch.distributed as dist

import tutti.torch


def refused(rank, size):
    group = dist.group.WORLD
    cpu = group._get_backend(torch.device("cpu"))

    def says(error, words, call):
        with pytest.raises(error, match=words):
            call()

    dense = torch.ones(3)
    says(ValueError, "Sparse.*to_dense", lambda: cpu.broadcast([dense.to_sparse()]).wait())
    says(ValueError, "SparseCsr.*to_dense", lambda: cpu.allreduce([torch.ones(2, 2).to_sparse_csr()]).wait())
    says(ValueError, "SUM and AVG", lambda: dist.all_reduce(dense.to_sparse(), dist.ReduceOp.MAX))
    says(ValueError, "different shapes", lambda: dist.all_reduce(torch.ones(3 + rank).to_sparse()))
    says(ValueError, "on meta.*moves tensors of CPUs and of CUDA GPUs", lambda: cpu.allreduce([dense.to("meta")]).wait())
    quantised = tutti.torch._backend.Quantised(cpu, "int8", 64, False)
    says(ValueError, "values is on meta.*lies in CPU memory", lambda: quantised.average(dense.to("meta"), None))
    says(ValueError, "residual is on meta.*in CPU memory", lambda: quantised.average(dense, dense.to("meta")))
    says(ValueError, "this rank's of the list of outputs has 4", lambda: dist.all_gather([torch.ones(4)] * size, dense))
    says(ValueError, "one per rank is needed", lambda: cpu.allgather([[dense]], [dense]).wait())
    says(ValueError, "the output has 5 elements.*must have 6", lambda: dist.all_gather_into_tensor(torch.ones(5), dense))
    says(ValueError, "the input has 5 elements.*must have 6", lambda: dist.reduce_scatter_tensor(dense, torch.ones(5)))
    says(TypeError, "float32 has no operator band", lambda: dist.all_reduce(dense, dist.ReduceOp.BAND))
    says(TypeError, "Float8.*not reduced", lambda: dist.all_reduce(dense.to(torch.float8_e4m3fn)))
    says(ValueError, "different types", lambda: cpu.allgather([[dense] * size], [dense.int()]).wait())
    says(ValueError, "split sizes add up to 4", lambda: cpu.alltoall_base(dense, dense, [2, 2], [1, 2]).wait())
    says(ValueError, "3 rows, which cannot be divided", lambda: dist.all_to_all_single(dense, dense))
    says(ValueError, "tag -7 is negative", lambda: cpu.send([dense], 1 - rank, -7).wait())
    memory = torch.ones(8)
    says(ValueError, "overlap", lambda: dist.all_gather_into_tensor(memory[:6], memory[5:]))
    dist.barrier()  # none of them harmed the group
    dist.all_reduce(dense)
    assert torch.all(dense == size)


def test_refused(ranks):
    ranks(2, refused)


def mismatched(rank, size, asynchronous):
    group = dist.new_group()
    with pytest.raises(RuntimeError, match="rank 0 called .*all ranks must make the same calls in the same order"):
        work = dist.all_reduce(torch.ones(3 if rank == 0 else 4), group=group, async_op=asynchronous)
        if asynchronous:
            work.wait()
    with pytest.raises(RuntimeError, match="this communicator failed earlier"):
        dist.all_reduce(torch.ones(3), group=group)
    other = dist.new_group()
    with pytest.raises(RuntimeError, match="rank 0 called broadcast.*called all_reduce"):
        dist.broadcast(torch.ones(3), 0, group=other) if rank == 0 else dist.all_reduce(torch.ones(3), group=other)
        dist.barrier(group=other)  # the root of a small broadcast may run ahead: its next call tells
    third = dist.new_group()
    with pytest.raises(RuntimeError, match="float32.*float64|float64.*float32"):
        dist.all_reduce(torch.ones(3, dtype=torch.float32 if rank else torch.float64), group=third)
    dist.barrier()


@pytest.mark.parametrize("asynchronous", [False, True])
def test_mismatched(ranks, asynchronous):
    ranks(3, mismatched, asynchronous)


def killed(rank, size, asynchronous):
    dist.all_reduce(torch.ones(2))
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(RuntimeError, match="rank 1 has ended"):
        for _ in range(100):
            work = dist.all_reduce(torch.ones(2), async_op=asynchronous)
            if asynchronous:
                work.get_future().wait()


@pytest.mark.parametrize("asynchronous", [False, True])
def test_killed_rank_is_named(ranks, asynchronous):
    ranks(3, killed, asynchronous, deaths=[1])


def forked(rank, size):
    tensor = torch.ones(1)
    dist.all_reduce(tensor)
    child = os.fork()
    if child == 0:
        try:
            dist.all_reduce(tensor)
        except RuntimeError as error:
            os._exit(42 if "was forked after the process group was made" in str(error) else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 42
    dist.all_reduce(tensor)
    assert tensor == size * size


def test_fork(ranks):
    ranks(2, forked)


def late_error(rank, size):
    """An error of a work shows in wait(), in its future, and in exception()."""
    group = dist.new_group()
    tensor = torch.zeros(3)
    if rank == 0:
        work = dist.irecv(tensor, 1, group=group)
        future = work.get_future()
        dist.barrier()
        with pytest.raises(RuntimeError, match="left the group"):
            work.wait()
        assert work.is_completed() and not work.is_success()
        with pytest.raises(RuntimeError, match="left the group"):
            future.wait()
    else:
        dist.barrier()
        dist.destroy_process_group(group)
    dist.barrier()


def test_late_error(ranks):
    ranks(2, late_error)
