"""Groups: several at once, made again, mixed backends, debug mode, leaving."""

import inspect
import pickle
import threading
import time
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

import tutti.torch


def subgroups(rank, size):
    dist.all_reduce(torch.ones(1))
    pairs = [dist.new_group([a, b]) for a in range(size) for b in range(a + 1, size)]
    alone = [dist.new_group([r]) for r in range(size)]
    for group in pairs + alone:
        if dist.get_rank(group) < 0:
            continue
        tensor = torch.ones(3)
        dist.all_reduce(tensor, group=group)
        assert torch.all(tensor == dist.get_world_size(group))
    twin = dist.new_group()
    tensors = [torch.full((100,), float(i)) for i in range(8)]
    works = [dist.all_reduce(t, group=g, async_op=True) for t, g in zip(tensors, [None, twin] * 4)]
    for work in works[::-1]:
        work.wait()
    assert all(torch.all(tensor == i * size) for i, tensor in enumerate(tensors))
    mine = dist.new_subgroups(group_size=1)[0]
    tensor = torch.ones(1)
    dist.all_reduce(tensor, group=mine)
    assert tensor == 1
    dist.destroy_process_group(pairs[0])
    dist.barrier()


def test_subgroups(ranks):
    ranks(4, subgroups)
    ranks(3, subgroups)


def again(rank, size, path):
    """The same group from the same store, many times: nobody is taken for one of the last time."""
    dist.destroy_process_group()
    store = dist.FileStore(path, size)
    for time_ in range(10):
        dist.init_process_group("tutti", store=store, rank=rank, world_size=size, timeout=timedelta(seconds=60))
        tensor = torch.full((2,), float(time_))
        dist.all_reduce(tensor)
        assert torch.all(tensor == time_ * size)
        dist.destroy_process_group()


def test_again(ranks, tmp_path):
    ranks(3, again, str(tmp_path / "store"))


def split(rank, size):
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    assert backend.supports_splitting
    # Ranks are in the order they are named; those that are in no part get no group.
    child = dist.split_group(split_ranks=[[2, 0], [3]], timeout=timedelta(seconds=50), group_desc="parts")
    if rank == 1:
        assert child is dist.GroupMember.NON_GROUP_MEMBER
    else:
        assert (child.rank(), child.size()) == {0: (1, 2), 2: (0, 2), 3: (0, 1)}[rank]
        assert dist.get_process_group_ranks(child) == ([2, 0] if rank != 3 else [3])
        assert dist.get_backend(child) == "tutti" and child.group_desc == "parts"
        assert child._get_backend(torch.device("cpu")).options._timeout == timedelta(seconds=50)
        tensor = torch.tensor([float(rank)])
        dist.broadcast(tensor, 2 if rank != 3 else 3, group=child)
        assert tensor == (2 if rank != 3 else 3)
        dist.destroy_process_group(child)
    # A part of a part, beside its parents.
    halves = dist.split_group(split_ranks=[[0, 1], [2, 3]])
    alone = dist.split_group(halves, split_ranks=[[1], [0]])
    assert alone.size() == 1 and alone.rank() == 0
    for group, expected in ((alone, 1), (halves, 2), (None, size)):
        tensor = torch.ones(2)
        dist.all_reduce(tensor, group=group)
        assert torch.all(tensor == expected)
    with pytest.raises(ValueError, match="duplicate"):
        dist.split_group(split_ranks=[[0, 0, 1]])


@pytest.mark.skipif(
    not hasattr(dist, "split_group") or "device_types" not in inspect.getsource(dist.split_group),
    reason="this PyTorch splits groups of a GPU only",
)
def test_split(ranks):
    ranks(4, split)


def merge(rank, size):
    half = dist.split_group(split_ranks=[[0, 1], [2, 3]])
    store = dist.PrefixStore("merged", dist.distributed_c10d._get_default_store())
    whole = half.merge_remote_group(store, size, timedelta(seconds=50), "merged", "both halves")
    assert whole.size() == size
    ranks = [torch.zeros(1, dtype=torch.int64) for _ in range(size)]
    whole.allgather([ranks], [torch.tensor([whole.rank()])]).wait()
    assert [int(each) for each in ranks] == list(range(size))
    whole.shutdown()


@pytest.mark.skipif(not hasattr(dist.ProcessGroup, "merge_remote_group"), reason="this PyTorch merges no groups")
def test_merge(ranks):
    ranks(4, merge)


def mixed_backend(rank, size):
    tensor = torch.ones(2)
    dist.all_reduce(tensor)
    assert torch.all(tensor == size)
    assert dist.group.WORLD._get_backend(torch.device("cpu")).name() == "tutti"


def test_by_device(ranks):
    ranks(2, mixed_backend, backend="cpu:tutti")
    ranks(2, mixed_backend, backend="cpu:tutti,cuda:gloo")


def leave_early(rank, size):
    """Ranks that leave are no reason to hang for those that leave later; those in a call are told."""
    group = dist.new_group()
    if rank == 0:
        dist.destroy_process_group(group)
    else:
        with pytest.raises(RuntimeError, match="rank 0 has (left the group|ended)"):
            dist.all_reduce(torch.ones(3), group=group)
        dist.destroy_process_group(group)
    dist.barrier()
    # Works under way are given a moment, then they fail; nothing hangs.
    group = dist.new_group()
    if rank == 0:
        tensor = torch.zeros(3)
        work = dist.irecv(tensor, 1, group=group)
        began = time.monotonic()
        dist.destroy_process_group(group)
        assert time.monotonic() - began < 30
        with pytest.raises(RuntimeError):
            work.wait()
        with pytest.raises(RuntimeError, match="destroyed"):
            group.allreduce([tensor]).wait()
    dist.barrier()


def test_leave_early(ranks):
    ranks(3, leave_early)


def abort(rank, size):
    """Another thread ends a call that would wait for ever."""
    group = dist.new_group()
    if rank == 0:
        backend = group._get_backend(torch.device("cpu"))
        thread = threading.Thread(target=lambda: (time.sleep(0.2), backend.abort()))
        thread.start()
        with pytest.raises(RuntimeError, match="this process aborted the communicator"):
            dist.all_reduce(torch.ones(2), group=group)
        thread.join()
    dist.barrier()


def test_abort(ranks):
    ranks(2, abort)


def in_detail(rank, size):
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    outputs = [torch.zeros(3) for _ in range(size)]
    dist.all_gather(outputs, tensor)
    dist.barrier()
    assert all(torch.all(output == size) for output in outputs)
    tensor = tutti.torch.empty(3).fill_(1)
    dist.all_reduce(tensor)
    assert torch.all(tensor == size)
    shape = (4,) if rank == 0 else (5,)
    with pytest.raises(RuntimeError, match="mismatch"):
        dist.all_reduce(torch.ones(shape))


def test_debug_detail(new_ranks, monkeypatch):
    monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "DETAIL")
    new_ranks(2, in_detail)


def monitored(rank, size):
    group = dist.new_group()
    backend = group._get_backend(torch.device("cpu"))
    for _ in range(3):
        backend.monitored_barrier(timedelta(seconds=60))
    for everyone in (False, True):
        if rank == 0:
            with pytest.raises(RuntimeError, match="Rank 1 failed to pass monitoredBarrier in 500 ms"):
                backend.monitored_barrier(timedelta(milliseconds=500), everyone)
        elif rank != 1:
            with pytest.raises(RuntimeError, match=f"Rank {rank} successfully reached monitoredBarrier, but"):
                backend.monitored_barrier(timedelta(milliseconds=500), everyone)
    if rank == 0:
        with pytest.raises(RuntimeError, match="Rank 0 timed out in monitoredBarrier after 0 ms"):
            backend.monitored_barrier(timedelta(seconds=0))
    # The group is none the worse for it.
    tensor = torch.ones(2)
    dist.all_reduce(tensor, group=group)
    assert torch.all(tensor == size)
    dist.barrier()


def test_monitored_barrier(ranks):
    ranks(3, monitored)


def recorded(rank, size, expected):
    dist.all_reduce(torch.ones(3))
    dist.barrier()
    recorder = dist.distributed_c10d._world.pg_flight_recorder_hooks.get(dist.group.WORLD)
    assert (recorder is not None) == expected
    trace = pickle.loads(torch._C._distributed_c10d._dump_fr_trace(backend="tutti"))
    names = [entry["profiling_name"] for entry in trace.get("entries", [])]
    assert any("all_reduce" in name or "allreduce" in name for name in names) == expected, names


@pytest.mark.skipif(
    not hasattr(dist.distributed_c10d, "_FR_SELF_RECORDING_BACKENDS"), reason="this PyTorch records no plugins"
)
@pytest.mark.parametrize("size", [None, "100"])
def test_flight_recorder_is_asked_for(new_ranks, monkeypatch, size):
    monkeypatch.delenv("TORCH_FR_BUFFER_SIZE", raising=False)
    if size is not None:
        monkeypatch.setenv("TORCH_FR_BUFFER_SIZE", size)
    new_ranks(2, recorded, size is not None)
