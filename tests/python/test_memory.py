"""Whose memory is used: arrays, buffers, DLPack and symmetric memory, without copies; and what is refused."""

import array
import gc

import numpy as np
import pytest
import tutti


def address(x):
    return x.__array_interface__["data"][0]


class Tensor:
    """Something that is no array but speaks DLPack, as tensors of other libraries do."""

    def __init__(self, numbers, device=(1, 0)):
        self.numbers, self.device, self.asked = numbers, device, 0

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **options):
        self.asked += 1
        options.pop("dl_device", None)
        options.pop("copy", None)
        return self.numbers.__dlpack__(**options)


def test_the_buffer_protocol(run):
    def job(comm):
        numbers = array.array("d", [1, comm.rank])
        assert comm.all_reduce(numbers) is numbers
        assert list(numbers) == [2.0, 1.0]
        data = bytearray(b"\1\2")
        assert comm.all_reduce(data) is data and data == b"\2\4"
        view = memoryview(bytearray(4))
        comm.broadcast(b"abcd" if comm.rank == 0 else view, 0)
        assert comm.rank == 0 or bytes(view) == b"abcd"
        gathered = comm.all_gather(bytes([comm.rank]))
        assert gathered.dtype == np.uint8 and gathered.tolist() == [0, 1]
    run(2, job)


def test_dlpack_is_used_where_it_is(run):
    def job(comm):
        numbers = np.full(5, comm.rank + 1, "f4")
        before = address(numbers)
        tensor = Tensor(numbers)
        assert comm.all_reduce(tensor) is tensor and tensor.asked > 0
        assert numbers.tolist() == [3.0] * 5 and address(numbers) == before
        out = Tensor(np.zeros((4, 2), "i8"))
        assert comm.all_gather(Tensor(np.full((2, 2), comm.rank)), out=out) is out
        assert out.numbers[:, 0].tolist() == [0, 0, 1, 1]
    run(2, job)


def test_dlpack_from_another_kind_of_device_is_refused(run):
    def job(comm):
        with pytest.raises(tutti.InvalidArgumentError, match=r"a device that is not CUDA's \(DLPack's kind 10\)"):
            comm.all_reduce(Tensor(np.zeros(2), device=(10, 0)))
    run(1, job)


def test_dlpack_that_is_read_only_or_strided_is_refused(run):
    def job(comm):
        with pytest.raises(tutti.InvalidArgumentError, match="not contiguous"):
            comm.all_reduce(Tensor(np.zeros((4, 4))[:, ::2]))
        fixed = np.zeros(2)
        fixed.flags.writeable = False
        with pytest.raises(tutti.InvalidArgumentError):
            comm.all_reduce(Tensor(fixed))
    run(1, job)


def test_results_stay_where_they_were(run):
    def job(comm):
        x = np.ones((3, 3), "f4")
        before = address(x)
        for _ in range(3):
            comm.all_reduce(x)
        assert address(x) == before and (x == 8).all()
        part = np.zeros(10)
        comm.all_reduce(part[2:5])  # a view is a piece of memory, too
        part[2:5] = comm.rank
        comm.all_reduce(part[2:5])
        assert part.tolist() == [0, 0, 1, 1, 1, 0, 0, 0, 0, 0]
    run(2, job)


@pytest.mark.parametrize("make, words", [
    (lambda: np.zeros((4, 4))[:, 1], "not contiguous.*ascontiguousarray"),
    (lambda: np.asfortranarray(np.zeros((2, 3))), r"Fortran order.*array\.T"),
    (lambda: b"abcd", "read-only"),
    (lambda: np.broadcast_to(np.zeros(1), (1,)), "read-only"),
])
def test_memory_that_cannot_be_written_in_one_piece(run, make, words):
    def job(comm):
        with pytest.raises(tutti.InvalidArgumentError, match=words) as caught:
            comm.all_reduce(make())
        assert isinstance(caught.value, ValueError) and caught.value.code == "invalid_argument"
        assert comm.all_reduce(np.ones(1)).tolist() == [1.0]
    run(1, job)


@pytest.mark.parametrize("make, words", [
    (lambda: [1, 2], "is a list, which is no piece of memory"),
    (lambda: 3.0, "is a float"),
    (lambda: None, "is a NoneType"),
    (lambda: np.array([{}, 1], object), "Python objects.*all_gather_object"),
    (lambda: np.zeros(2, [("a", object)]), "Python objects"),
])
def test_what_is_no_memory(run, make, words):
    def job(comm):
        for call in (comm.all_reduce, comm.all_gather, comm.broadcast):
            with pytest.raises(tutti.ArgumentTypeError, match=words) as caught:
                call(make())
            assert isinstance(caught.value, TypeError) and isinstance(caught.value, tutti.Error)
    run(1, job)


def test_types_that_differ_or_lack_the_operator(run):
    def job(comm):
        with pytest.raises(tutti.InvalidArgumentError, match="float64, those of out float32"):
            comm.all_reduce(np.zeros(2), out=np.zeros(2, "f4"))
        with pytest.raises(tutti.Error):
            comm.all_reduce(np.zeros(2, "M8[s]"))
        with pytest.raises(tutti.Error):
            comm.all_reduce(np.zeros(2, "c8"), "maximum")
        with pytest.raises(tutti.InvalidArgumentError, match="no operator 'add'; known: sum, product"):
            comm.all_reduce(np.zeros(2), "add")
        with pytest.raises(tutti.ArgumentTypeError, match="op is a int"):
            comm.all_reduce(np.zeros(2), 3)
        with pytest.raises(tutti.InvalidArgumentError, match="no multiple of the 2 ranks; reduce_scatter_v"):
            comm.reduce_scatter(np.zeros(3))
        with pytest.raises(tutti.InvalidArgumentError):
            comm.all_reduce(np.zeros(2), out=np.zeros(3))
    run(2, job)


def test_symmetric_arrays(run, transport):
    def job(comm):
        x = comm.empty((3, 2), "f4")
        assert x.shape == (3, 2) and x.dtype == np.float32 and not x.any() and address(x) % 64 == 0
        x += comm.rank
        assert comm.all_reduce(x) is x and (x == 6).all()
        assert comm.empty(5).dtype == np.float64 and comm.empty((0, 2), "i4").shape == (0, 2)
        assert comm.empty((), "i8").shape == ()
        with pytest.raises(tutti.InvalidArgumentError, match="negative"):
            comm.empty((-1, 2))
        with pytest.raises(tutti.InvalidArgumentError, match="Python objects"):
            comm.empty(3, object)
    run(4, job, transport=transport)


def test_symmetric_arrays_live_as_long_as_their_views(run):
    def job(comm):
        view = comm.empty(100_000, "i8")[10:20]
        gc.collect()
        for _ in range(4):  # memory that was freed would be given out again
            comm.empty(100_000, "i8").fill(-1)
            gc.collect()
        view[:] = comm.rank
        assert comm.all_reduce(view).tolist() == [1] * 10
        comm.close()
        gc.collect()
        view += 1
        assert view.tolist() == [2] * 10
    run(2, job)


def test_symmetric_memory_is_given_back(run):
    def job(comm):
        for _ in range(600):  # more than the library keeps at once
            x = comm.empty(1000)
            x += 1
            comm.all_reduce(x)
        return True
    try:
        assert run(2, job) == [True, True]
    except tutti.RankError as error:
        assert "symmetric allocations" in str(error)  # a communicator may make so many in its life


def test_arrays_of_async_calls_cannot_be_resized_or_freed(run):
    def job(comm):
        data = bytearray(8)
        work = comm.recv(data, 1 - comm.rank, async_op=True)
        with pytest.raises(BufferError):
            data.append(1)
        work2 = comm.recv(np.zeros(3), 1 - comm.rank, 1, async_op=True)  # nobody else holds that array
        gc.collect()
        comm.send(b"x" * 8, 1 - comm.rank)
        comm.send(np.ones(3), 1 - comm.rank, 1)
        work.wait(), work2.wait()
        data.append(1)
        assert data == b"x" * 8 + b"\1"
    run(2, job)
