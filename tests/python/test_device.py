"""Arrays and streams of a CUDA device, over a driver without one, whose memory the processor cannot touch."""

import ctypes
import gc
import mmap
import os
import weakref

import numpy as np
import pytest
import tutti


class Driver:
    """The calls of the driver that a library of arrays makes."""

    def __init__(self):
        self.library = ctypes.CDLL(os.environ["TUTTI_CUDA_DRIVER"])
        context = ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxPushCurrent_v2", context)

    def call(self, name, *arguments):
        result = getattr(self.library, name)(*arguments)
        assert result == 0, f"{name}: {result}"

    def copy(self, to, source, count):
        self.call("cuMemcpy", ctypes.c_ulonglong(to), ctypes.c_ulonglong(source), ctypes.c_size_t(count))

    def allocate(self, count):
        address = ctypes.c_ulonglong()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(count))
        return address.value

    def stream(self):
        made = ctypes.c_void_p()
        self.call("cuStreamCreateWithPriority", ctypes.byref(made), 1, 0)
        return made.value


class Word:
    """A number in host memory that the device sees."""

    def __init__(self, driver, count):
        self.memory = mmap.mmap(-1, count)
        address = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        driver.call("cuMemHostRegister_v2", ctypes.c_void_p(address), ctypes.c_size_t(count), 3)  # seen by all
        found = ctypes.c_ulonglong()
        driver.call("cuMemHostGetDevicePointer_v2", ctypes.byref(found), ctypes.c_void_p(address), 0)
        self.number, self.seen = ctypes.c_uint32.from_address(address), found.value

    def write(self, number):
        self.number.value = number


class Array:
    """An array of another library, as CuPy has them."""

    def __init__(self, driver, numbers, **shown):
        self.driver, self.shape, self.dtype = driver, numbers.shape, numbers.dtype
        self.address = driver.allocate(numbers.nbytes)
        self.write(numbers)
        self.shown = shown

    def write(self, numbers):
        self.driver.copy(self.address, numbers.ctypes.data, numbers.nbytes)

    def read(self):
        numbers = np.empty(self.shape, self.dtype)
        self.driver.copy(numbers.ctypes.data, self.address, numbers.nbytes)
        return numbers

    @property
    def __cuda_array_interface__(self):
        return {"version": 3, "shape": self.shape, "typestr": self.dtype.str, "data": (self.address, False),
                "strides": None, **self.shown}


class Tensor:
    """The same memory by DLPack alone."""

    def __init__(self, array):
        self.array = array

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)


def contents(driver, array):
    numbers = np.empty(array.shape, array.dtype)
    driver.copy(numbers.ctypes.data, array.__cuda_array_interface__["data"][0], numbers.nbytes)
    return numbers


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i8", "u1", "c8"])
def test_arrays_of_a_device_are_used_where_they_are(run, dtype):
    def job(comm):
        driver = Driver()
        x = Array(driver, np.full((2, 3), comm.rank + 1, dtype))
        assert comm.all_reduce(x) is x
        assert (x.read() == 3).all()
        gathered = comm.all_gather(Array(driver, np.full(4, comm.rank, dtype)))
        assert isinstance(gathered, np.ndarray) and gathered.tolist() == [0] * 4 + [1] * 4
        out = Array(driver, np.zeros(8, dtype))
        assert comm.all_gather(Array(driver, np.full(4, comm.rank, dtype)), out=out) is out
        assert out.read().tolist() == [0] * 4 + [1] * 4
        mixed = x if comm.rank == 0 else np.full((2, 3), 5, dtype)
        comm.broadcast(mixed, 1)
        assert (x.read() == (5 if comm.rank == 0 else 3)).all()
    run(2, job)


def test_memory_of_the_communicator_is_shown_to_others(run):
    def job(comm):
        driver = Driver()
        x = comm.empty((4, 2), "f4", device=0)
        assert isinstance(x, tutti.DeviceArray) and len(x) == 4 and x.size == 8 and x.nbytes == 32
        assert (contents(driver, x) == 0).all()
        assert x.__dlpack_device__() == (2, 0)
        numbers = np.arange(8, dtype="f4") + comm.rank
        driver.copy(x.__cuda_array_interface__["data"][0], numbers.ctypes.data, 32)
        assert comm.all_reduce(x) is x
        assert comm.last_algorithm == "one_launch"
        assert contents(driver, x).ravel().tolist() == [2 * i + 1 for i in range(8)]
        comm.all_reduce(Tensor(x), "maximum")  # the same by DLPack
        assert comm.last_algorithm == "one_launch"
        assert contents(driver, x).ravel().tolist() == [2 * i + 1 for i in range(8)]
        with pytest.raises(tutti.InvalidArgumentError, match="there is no device 99"):
            comm.empty(3, device=99)
        with pytest.raises(tutti.InvalidArgumentError, match="more than memory can hold"):
            comm.empty((1 << 40, 1 << 40), "f4", device=0)
        with pytest.raises(tutti.InvalidArgumentError, match="arrays hold numbers"):
            comm.empty(3, "M8[s]", device=0)
    run(2, job)


def test_operators_with_a_source_for_the_device(run):
    source = "__device__ Element combine(const Element& a, const Element& b) { return b * b < a * a ? a : b; }"

    def job(comm):
        driver = Driver()
        x = Array(driver, np.array([-3, 1, 2], "f4") if comm.rank == 0 else np.array([2, -5, -1], "f4"))
        farthest = tutti.Op(lambda a, b: np.where(b * b < a * a, a, b), name="farthest", device_source=source)
        comm.all_reduce(x, farthest)
        assert comm.last_algorithm == "one_launch"
        assert x.read().tolist() == [-3, -5, 2]
        host = np.array([comm.rank], "f4")
        other = tutti.Op(lambda a, b: a + b, name="sum", device_source=source if comm.rank == 0 else "")
        with pytest.raises(tutti.MismatchError):
            comm.all_reduce(host, other)
    run(2, job)


def test_streams(run):
    class OfTorch:
        def __init__(self, handle):
            self.cuda_stream = handle

    class OfCupy:
        def __init__(self, handle):
            self.ptr = handle

    class OfProtocol:
        def __init__(self, handle):
            self.handle = handle

        def __cuda_stream__(self):
            return 0, self.handle

    def job(comm):
        driver = Driver()
        handle = driver.stream()
        assert comm.stream is None
        for kind in (int, OfTorch, OfCupy, OfProtocol):
            comm.stream = kind(handle)
            assert comm.stream == handle
        for kind in (OfTorch, OfCupy, OfProtocol):  # the default stream has no handle of its own
            comm.stream = kind(0)
            assert comm.stream == 1
        comm.stream = handle
        with pytest.raises(tutti.InvalidArgumentError, match="a str is no stream"):
            comm.stream = "default"
        x = Array(driver, np.zeros(1000, "f4"))
        later = np.full(1000, comm.rank + 1, "f4")
        for work in (False, True):
            # What the stream holds comes before the call.
            driver.call("cuMemcpyHtoDAsync_v2", ctypes.c_ulonglong(x.address), ctypes.c_void_p(later.ctypes.data),
                        ctypes.c_size_t(later.nbytes), ctypes.c_void_p(handle))
            done = comm.all_reduce(x, async_op=work)
            if work:
                done.wait()
            assert (x.read() == 3).all()
        comm.stream = None
        assert comm.stream is None
    run(2, job)


def test_a_stream_is_kept_while_it_is_set(run):
    class Stream:  # which destroys what it stands for when it goes, as many do
        def __init__(self, handle):
            self.handle = handle

        def __cuda_stream__(self):
            return 0, self.handle

    def job(comm):
        driver = Driver()

        def give(communicator):
            stream = Stream(driver.stream())
            communicator.stream = stream
            return weakref.ref(stream)

        first = give(comm)
        gc.collect()
        assert first() is not None
        second = give(comm)
        assert first() is None and second() is not None
        comm.stream = None
        assert second() is None
        other = comm.duplicate()
        third = give(other)
        gc.collect()
        assert third() is not None
        other.close()
        assert third() is None
    run(1, job)


def require_after_the_stream_of_its_array(comm, host, driver):
    handle = driver.stream()
    x = Array(driver, np.zeros(1000, "f4"), stream=handle)
    word = Word(driver, 4096)
    later = np.full(1000, 2, "f4")
    for turn in range(1, 4):
        x.write(np.zeros(1000, "f4"))
        # The stream waits for the word, and writes then; a call that asked another one would end before.
        driver.call("cuStreamWaitValue32_v2", ctypes.c_void_p(handle), ctypes.c_ulonglong(word.seen), turn, 0)
        driver.call("cuMemcpyHtoDAsync_v2", ctypes.c_ulonglong(x.address), ctypes.c_void_p(later.ctypes.data),
                    ctypes.c_size_t(later.nbytes), ctypes.c_void_p(handle))
        work = comm.all_reduce(x, async_op=True)
        for _ in range(100):
            host.barrier()
            assert not work.done()
        word.write(turn)
        work.wait()
        assert (x.read() == 4).all()


def test_a_stream_that_is_set_comes_after_those_that_arrays_name(run):
    def job(comm):
        driver = Driver()
        host = comm.duplicate()
        comm.stream = driver.stream()
        require_after_the_stream_of_its_array(comm, host, driver)
    run(2, job)


def test_the_stream_that_an_array_names_comes_first(run):
    def job(comm):
        driver = Driver()
        require_after_the_stream_of_its_array(comm, comm.duplicate(), driver)
    run(2, job)


def test_a_call_comes_after_the_streams_of_all_its_arrays(run):
    def job(comm):
        driver = Driver()
        host = comm.duplicate()
        handle = driver.stream()
        # The input's stream is the second that the call meets, or the only one that is busy.
        x = Array(driver, np.zeros(1000, "f4"), stream=handle)
        out = Array(driver, np.zeros(2000, "f4"), stream=driver.stream())
        word = Word(driver, 4096)
        later = np.full(1000, 2, "f4")

        def hold(turn, array, stream):
            driver.call("cuStreamWaitValue32_v2", ctypes.c_void_p(stream), ctypes.c_ulonglong(word.seen), turn, 0)
            driver.call("cuMemcpyHtoDAsync_v2", ctypes.c_ulonglong(array.address), ctypes.c_void_p(later.ctypes.data),
                        ctypes.c_size_t(later.nbytes), ctypes.c_void_p(stream))

        for turn, held in enumerate((x, out, x, out), 1):
            x.write(later if held is out else np.zeros(1000, "f4"))
            hold(turn, held, held.shown["stream"])
            work = comm.all_gather(x, out=out, async_op=True)
            for _ in range(50):
                host.barrier()
                assert not work.done()
            word.write(turn)
            work.wait()
            assert (out.read() == 2).all()
    run(2, job)


def test_what_is_refused(run):
    def job(comm):
        driver = Driver()
        numbers = np.zeros((3, 4), "f4")

        def refuses(words, **shown):
            with pytest.raises(tutti.InvalidArgumentError, match=words):
                comm.all_reduce(Array(driver, numbers, **shown))
        refuses("is not contiguous", strides=(4, 12))
        refuses("is read-only", data=(1 << 40, True))
        refuses("no numbers of this machine", typestr=">f4")
        refuses("has a mask", mask=object())
        comm.all_reduce(Array(driver, numbers, strides=(16, 4)))
        os.environ["TUTTI_CUDA_DRIVER"] = "none"
        refuses("turns those off")
    run(1, job)
