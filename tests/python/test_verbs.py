"""Every verb on every element type, in place and not, against NumPy."""

import functools

import numpy as np
import pytest
import tutti
from dtypes import ALL, FLOATS, INTEGERS, NUMBERS, joined, same, values


def everyone(comm, dtype, shape=None):
    shape = shape or (2 * comm.size, 3)
    return [values(rank, dtype, shape) for rank in range(comm.size)]


def folded(arrays, function=np.add):
    return functools.reduce(function, arrays)


def check_vectors(comm, dtype):
    arrays = everyone(comm, dtype)
    mine = arrays[comm.rank]
    total = folded(arrays)
    x = mine.copy()
    assert comm.all_reduce(x) is x
    assert same(x, total), (x, total)
    x, out = mine.copy(), np.zeros_like(mine)
    assert comm.all_reduce(x, out=out) is out
    assert same(out, total) and same(x, mine)
    root = comm.size - 1
    x = mine.copy()
    result = comm.reduce(x, root=root)
    if comm.rank == root:
        assert result is x and same(x, total)
    else:
        assert result is None and same(x, mine)
    x = mine.copy()
    assert comm.scan(x) is x
    assert same(x, folded(arrays[:comm.rank + 1]))
    x = mine.copy()
    assert comm.exclusive_scan(x) is x
    assert same(x, folded(arrays[:comm.rank]) if comm.rank else mine)
    assert same(comm.reduce_scatter(mine), total[2 * comm.rank:2 * comm.rank + 2])


def check_copies(comm, dtype):
    arrays = everyone(comm, dtype)
    mine, root = arrays[comm.rank], comm.size - 1
    x = mine.copy()
    assert comm.broadcast(x, root) is x
    assert same(x, arrays[root])
    out = np.zeros_like(mine)
    assert comm.broadcast(mine if comm.rank == root else None, root, out=out) is out
    assert same(out, arrays[root])
    whole = joined(arrays)
    assert same(comm.all_gather(mine), whole)
    # In place: the input is this rank's rows of the output.
    out = np.zeros_like(whole)
    rows = slice(len(mine) * comm.rank, len(mine) * (comm.rank + 1))
    out[rows] = mine
    assert comm.all_gather(out[rows], out=out) is out
    assert same(out, whole)
    gathered = comm.gather(mine, root)
    assert same(gathered, whole) if comm.rank == root else gathered is None
    out = np.zeros((2, 3), dtype)
    comm.scatter(arrays[root] if comm.rank == root else None, out, root)
    assert same(out, arrays[root][2 * comm.rank:2 * comm.rank + 2])
    expected = joined([array[2 * comm.rank:2 * comm.rank + 2] for array in arrays])
    assert same(comm.all_to_all(mine), expected)
    x = mine.copy()
    assert comm.all_to_all(x, out=x) is x
    assert same(x, expected)


def test_vectors_of_every_number(run, ranks, transport):
    def job(comm):
        for dtype in NUMBERS:
            check_vectors(comm, dtype)
    run(ranks, job, transport=transport)


def test_copies_of_every_type(run, ranks, transport):
    def job(comm):
        for dtype in ALL:
            check_copies(comm, dtype)
    run(ranks, job, transport=transport)


@pytest.mark.parametrize("op, function", [("sum", np.add), ("product", np.multiply), ("minimum", np.minimum),
                                          ("maximum", np.maximum), ("min", np.minimum), ("prod", np.multiply)])
def test_operators(run, op, function):
    def job(comm):
        for dtype in INTEGERS + FLOATS:
            arrays = everyone(comm, dtype)
            assert same(comm.all_reduce(arrays[comm.rank].copy(), op), folded(arrays, function))
    run(3, job)


def test_operators_on_bits(run):
    def job(comm):
        for op, function in (("band", np.bitwise_and), ("bor", np.bitwise_or), ("bxor", np.bitwise_xor)):
            for dtype in INTEGERS:
                arrays = everyone(comm, dtype)
                assert same(comm.all_reduce(arrays[comm.rank].copy(), op), folded(arrays, function))
    run(4, job)


def test_logical_operators_on_numbers(run):
    def job(comm):
        for op, function in (("land", np.logical_and), ("lor", np.logical_or), ("lxor", np.logical_xor)):
            for dtype in INTEGERS + FLOATS:
                # True on all ranks, on one, on none.
                arrays = [np.array([rank + 2, rank == 1, 0], dtype) for rank in range(comm.size)]
                expected = functools.reduce(function, arrays).astype(dtype)
                assert same(comm.all_reduce(arrays[comm.rank].copy(), op), expected)
    run(3, job)


def test_values_and_their_indices(run):
    def job(comm):
        for value in ("f4", "f8", "i2", "i4", "i8", "u8"):
            for index in ("i4", "i8"):
                dtype = np.dtype([("value", value), ("index", index)], align=True)
                mine = np.array([(comm.rank, comm.rank), (7, 9 - comm.rank)], dtype)
                assert comm.all_reduce(mine.copy(), "minloc").tolist() == [(0, 0), (7, 9 - comm.size + 1)]
                assert comm.all_reduce(mine.copy(), "maxloc")[0].tolist() == (comm.size - 1, comm.size - 1)
        nan = np.array([(np.nan if comm.rank else -1, comm.rank)], np.dtype([("value", "f4"), ("index", "i4")]))
        assert comm.all_reduce(nan, "minloc")["index"] == 1
        for dtype in ("f4", [("value", "f8"), ("index", "i4")], [("value", "f4"), ("index", "f4")], [("a", "i4")] * 1,
                      [("index", "i4"), ("value", ">f4")]):
            with pytest.raises(tutti.Error):
                comm.all_reduce(np.zeros(2, dtype), "minloc")
    run(3, job)


def test_two_arrays_without_any_rank():
    for dtype in INTEGERS + FLOATS:
        left, right = values(0, dtype, (4, 3)), values(1, dtype, (4, 3))
        assert same(tutti.reduce_local(left, right), left + right)
        assert same(tutti.reduce_local(left, right, "minimum"), np.minimum(left, right))
        assert tutti.reduce_local(left, right, "product", out=right) is right
        assert same(right, left * values(1, dtype, (4, 3)))
    minus = tutti.Op(lambda a, b: a - b, commutative=False)
    assert tutti.reduce_local(np.array([5.0]), np.array([3.0]), minus).tolist() == [2.0]
    for wrong in (lambda: tutti.reduce_local(np.zeros(3), np.zeros(4)),
                  lambda: tutti.reduce_local(np.zeros(3), np.zeros(3, "f4")),
                  lambda: tutti.reduce_local(np.zeros(3), np.zeros(3), "band")):
        with pytest.raises(tutti.Error):
            wrong()


def test_booleans(run):
    def job(comm):
        mine = np.array([comm.rank == 1, True, False])
        assert comm.all_reduce(mine.copy(), "sum").tolist() == [True, True, False]
        assert comm.all_reduce(mine.copy(), "product").tolist() == [False, True, False]
    run(3, job)


def test_average_and_premultiplied_sum(run):
    def job(comm):
        x = np.array([comm.rank, 1.0])
        assert comm.all_reduce(x.copy(), "average").tolist() == [1.5, 1.0]
        assert comm.all_reduce(x.copy(), tutti.premul_sum(0.5)).tolist() == [3.0, 2.0]
    run(4, job)


def test_an_operator_of_ones_own(run):
    best_type = np.dtype([("value", "f4"), ("owner", "i4")])

    def better(left, right):
        return np.where(right["value"] > left["value"], right, left)

    def job(comm):
        mine = np.array([(comm.rank % 3, comm.rank)], best_type)
        comm.all_reduce(mine, tutti.Op(better))
        assert mine[0].tolist() == (2.0, 2)
        # In the order of the ranks: rank 0's comes out.
        first = tutti.Op(lambda left, right: left, commutative=False, name="first")
        work = comm.all_reduce(np.array([comm.rank + 5]), first, async_op=True)
        assert work.wait().tolist() == [5]
    run(4, job)


def test_an_operator_of_ones_own_takes_elements_of_a_megabyte(run):
    def job(comm):
        page = np.full(1 << 20, comm.rank + 1, np.uint8).view("V1048576")
        last = tutti.Op(lambda left, right: right, commutative=False, name="last")
        out = np.empty_like(page)
        comm.scan(page, last, out=out)
        assert set(out.view(np.uint8)) == {comm.rank + 1}
        comm.all_reduce(page, last)
        assert set(page.view(np.uint8)) == {comm.size}
        with pytest.raises(tutti.UnsupportedError, match="at most 1048576 bytes, not 1048577"):
            comm.all_reduce(np.zeros((1 << 20) + 1, np.uint8).view("V1048577"), last)
    run(3, job)


def test_an_operator_that_raises_fails_the_call_with_its_words(run):
    def job(comm):
        def bad(left, right):
            raise ValueError("no such sum")
        with pytest.raises(tutti.Error) as caught:
            comm.all_reduce(np.zeros(3), tutti.Op(bad))
        return str(caught.value)
    assert any("no such sum" in words for words in run(2, job))


def test_shapes_without_axes_and_without_elements(run):
    def job(comm):
        assert comm.all_gather(np.array(comm.rank)).tolist() == list(range(comm.size))
        x = np.array(1.0)
        assert comm.all_reduce(x).item() == comm.size
        assert comm.all_reduce(np.zeros((0, 4))).shape == (0, 4)
        assert comm.all_gather(np.zeros((0, 4))).shape == (0, 4)
        assert comm.all_to_all(np.zeros((0,))).shape == (0,)
    run(3, job)


def test_coalesced(run):
    def job(comm):
        arrays = [np.full(3, comm.rank, "f4"), np.full((2, 2), 1, "i8"), np.full(1, 2, "f4")]
        assert comm.all_reduce_coalesced(arrays) is arrays
        assert [array.ravel().tolist() for array in arrays] == [[3.0] * 3, [3] * 4, [6.0]]
    run(3, job)


def test_groups_that_not_all_ranks_call_for(run):
    def job(comm):
        assert comm.parent_ranks is None
        if comm.rank in (1, 3):
            pair = comm.create_group([3, 1], tag=5)
            assert pair.parent_ranks == [3, 1] and pair.rank == (0 if comm.rank == 3 else 1)
            assert pair.all_gather(np.array([comm.rank])).tolist() == [3, 1]
        if comm.rank == 2:
            alone = comm.self()
            assert (alone.size, alone.parent_ranks) == (1, [2])
            assert alone.all_reduce(np.array([3.0])).tolist() == [3.0]
        with pytest.raises(tutti.InvalidArgumentError, match="is not in the list"):
            comm.create_group([(comm.rank + 1) % comm.size])
        comm.barrier()
    run(4, job)


def test_groups(run):
    def job(comm):
        half = comm.split(comm.rank % 2, -comm.rank)
        assert (half.rank, half.size) == (1 - comm.rank // 2, 2)
        assert half.all_gather(np.array([comm.rank])).tolist() == [comm.rank % 2 + 2, comm.rank % 2]
        assert comm.split(-1 if comm.rank else 0) is None or comm.rank == 0
        pair = comm.subgroup([3, 1])
        assert (pair is None) == (comm.rank in (0, 2))
        if pair:
            assert pair.rank == (0 if comm.rank == 3 else 1)
        twin = comm.duplicate()
        work = comm.all_reduce(np.ones(2), async_op=True)
        assert twin.all_reduce(np.ones(2)).tolist() == [4.0, 4.0] == work.wait().tolist()
    run(4, job)


def test_step_report(run):
    def job(comm):
        with comm.step_report(steps=3) as report:
            for _ in range(3):
                comm.all_reduce(np.ones(10, dtype=np.float32))
                comm.all_reduce(np.ones(10, dtype=np.float32), async_op=True).wait()
                comm.barrier()
        said = report.json()
        assert {phrase["verb"]: (phrase["bytes"], phrase["times"], phrase["ranks"]) for phrase in said["each_step"]} == {
            "all_reduce": (40, 2, 2), "barrier": (0, 1, 2)}
        assert said["gamma_raw"] > 0 and 0 < said["waiting_us"] <= said["total_us"]
        assert "every step says\n  all_reduce" in str(report) and "exposed" in str(report)
        report.steps = 0
        with pytest.raises(tutti.InvalidArgumentError, match="0 steps"):
            str(report)
        with pytest.raises(tutti.InvalidArgumentError, match="once the `with` has ended"):
            str(comm.step_report())
    run(2, job)


def test_last_algorithm_timeout_and_barrier(run):
    def job(comm):
        comm.all_reduce(np.ones(2))
        assert comm.last_algorithm and comm.tuned in (False, True)
        before = comm.counters["all_reduce"]
        comm.all_reduce(np.ones(10, dtype=np.float32))
        after = comm.counters["all_reduce"]
        assert (after["calls"], after["bytes"]) == (before["calls"] + 1, before["bytes"] + 40)
        assert after["waited"] >= before["waited"] >= 0 and "scan" not in comm.counters
        comm.timeout = 12.5
        assert comm.timeout == 12.5
        comm.barrier()
        assert comm.barrier(async_op=True).wait() is None
    run(2, job)
    run(2, lambda comm: comm.all_reduce(np.ones(9)), algorithm="ring", deterministic=False)
