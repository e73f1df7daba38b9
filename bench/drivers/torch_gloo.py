"""torch_gloo: PyTorch's collectives over its gloo backend, as ranks that `tutti bench` measures.

Speaks the protocol of tools/bench/driver/protocol.h and checks with the numbers of tools/bench/driver/values.h.
"""
import os
import socket
import sys
import time

RANK = int(os.environ["TUTTI_BENCH_RANK"])
RANKS = int(os.environ["TUTTI_BENCH_RANKS"])
CORES = [int(core) for core in os.environ.get("TUTTI_BENCH_CORES", "").split(",") if core]
if CORES:
    os.sched_setaffinity(0, {CORES[RANK % len(CORES)]})  # before torch makes threads, so that they inherit it

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

DEVICE = {"device": "cuda", "devices": f"cuda:{RANK % max(torch.cuda.device_count(), 1)}"}.get(
    os.environ.get("TUTTI_BENCH_MEMORY"), "cpu")
PERIOD = 251
TYPES = {
    "int8": torch.int8, "int32": torch.int32, "int64": torch.int64, "uint8": torch.uint8,
    "float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32, "float64": torch.float64,
}
OPS = {"sum": dist.ReduceOp.SUM, "product": dist.ReduceOp.PRODUCT, "minimum": dist.ReduceOp.MIN,
       "maximum": dist.ReduceOp.MAX}
IN_PLACE_ONLY = ("all_reduce", "broadcast", "reduce")
APART_ONLY = ("scatter", "gather", "all_gather", "reduce_scatter", "all_to_all", "send_recv", "barrier")


class Cell:
    def __init__(self, words):
        self.verb, self.type, self.op, root, count, place, memory, copies, self.algorithm = words
        self.root, self.count, self.copies = int(root), int(count), int(copies)
        self.in_place, self.symmetric = place == "in_place", memory == "symmetric"
        self.at_root = self.root == RANK

    def why_not(self):
        if self.symmetric:
            return "has no symmetric memory"
        if self.algorithm != "-":
            return "has no algorithms"
        if self.verb in ("scan", "exclusive_scan"):
            return "torch has no such verb"
        if self.verb in IN_PLACE_ONLY and not self.in_place:
            return "in place only"
        if self.verb in APART_ONLY and self.in_place:
            return "not in place"
        if self.type not in TYPES:
            return "gloo has no such type"
        if self.verb in ("all_reduce", "reduce", "reduce_scatter") and self.op not in OPS:
            return "gloo has no such operator"
        return ""

    def input_count(self):
        whole = self.verb in ("reduce_scatter", "all_to_all") or (self.verb == "scatter" and self.at_root)
        return self.count * RANKS if whole else 0 if self.verb in ("scatter", "barrier") else self.count

    def output_count(self):
        if self.verb in ("all_gather", "all_to_all") or (self.verb == "gather" and self.at_root):
            return self.count * RANKS
        return 0 if self.verb in ("gather", "barrier") else self.count

    def values(self, rank, phase, count):
        at = (torch.arange(count, dtype=torch.int64) + phase) % PERIOD
        if self.op == "product":
            return 1 + (((at + rank) % RANKS == 0) & (at % 2 == 0)).to(torch.int64)
        narrow = torch.empty(0, dtype=TYPES[self.type]).element_size() <= 2
        return (at * 7 + at * rank + rank * 5) % (3 if narrow else 101)

    def folded(self, first, last, phase, count):
        result = self.values(first, phase, count)
        join = {"product": torch.mul, "minimum": torch.minimum, "maximum": torch.maximum}.get(self.op, torch.add)
        for rank in range(first, last + 1)[1:]:
            result = join(result, self.values(rank, phase, count))
        return result.to(TYPES[self.type])

    def expected(self):
        """(begin, count, phase, first rank, last rank) of each part of the output."""
        n, own, last = self.count, self.count * RANK, RANKS - 1
        chunks = [(n * r, n, own if self.verb == "all_to_all" else 0, r, r) for r in range(RANKS)]
        left = (RANK + last) % RANKS
        return {
            "all_reduce": [(0, n, 0, 0, last)],
            "broadcast": [(0, n, 0, self.root, self.root)],
            "reduce": [(0, n, 0, 0, last)] if self.at_root else [],
            "scatter": [(0, n, own, self.root, self.root)],
            "reduce_scatter": [(0, n, own, 0, last)],
            "send_recv": [(0, n, 0, left, left)],
            "gather": chunks if self.at_root else [],
            "all_gather": chunks,
            "all_to_all": chunks,
            "barrier": [],
        }[self.verb]


class Rank:
    """Holds one cell: only implementations with several kinds of memory are asked for more than slot 0."""

    def __init__(self):
        self.cell = None
        self.copies = []
        self.next = 0

    def prepare(self, words):
        self.cell = Cell(words)
        self.copies = []
        reason = self.cell.why_not()
        if reason:
            return "cannot " + reason
        for _ in range(self.cell.copies):
            type_ = TYPES[self.cell.type]
            source = torch.zeros(self.cell.input_count(), dtype=type_, device=DEVICE)
            target = source if self.cell.in_place else torch.zeros(self.cell.output_count(), dtype=type_, device=DEVICE)
            self.copies.append((self.call_of(source, target), source, target))
        self.next = 0
        return "ready"

    def call_of(self, source, target):
        cell = self.cell
        if cell.verb == "all_reduce":
            return lambda: dist.all_reduce(target, op=OPS[cell.op])
        if cell.verb == "broadcast":
            return lambda: dist.broadcast(target, src=cell.root)
        if cell.verb == "reduce":
            return lambda: dist.reduce(target, dst=cell.root, op=OPS[cell.op])
        if cell.verb == "scatter":
            parts = list(source.chunk(RANKS)) if cell.at_root else None
            return lambda: dist.scatter(target, parts, src=cell.root)
        if cell.verb == "gather":
            parts = list(target.chunk(RANKS)) if cell.at_root else None
            return lambda: dist.gather(source, parts, dst=cell.root)
        if cell.verb == "all_gather":
            return lambda: dist.all_gather_into_tensor(target, source)
        if cell.verb == "reduce_scatter":
            return lambda: dist.reduce_scatter_tensor(target, source, op=OPS[cell.op])
        if cell.verb == "all_to_all":
            return lambda: dist.all_to_all_single(target, source)
        if cell.verb == "send_recv":
            return lambda: self.exchange(source, target)
        return dist.barrier

    @staticmethod
    def exchange(source, target):
        sent = dist.isend(source, (RANK + 1) % RANKS)
        received = dist.irecv(target, (RANK + RANKS - 1) % RANKS)
        sent.wait()
        received.wait()

    def check(self):
        cell = self.cell
        call, source, target = self.copies[0]
        target.fill_(77)
        source.copy_(cell.folded(RANK, RANK, 0, cell.input_count()))
        dist.barrier()
        call()
        wrong = 0
        for begin, count, phase, first, last in cell.expected():
            wrong += int((target[begin:begin + count].cpu() != cell.folded(first, last, phase, count)).sum())
        dist.barrier()
        source.zero_()
        return f"checked {wrong} -"

    def run_calls(self, calls):
        for _ in range(calls):
            self.copies[self.next][0]()
            self.next = (self.next + 1) % len(self.copies)

    def time(self, calls, warm_up):
        dist.barrier()
        self.run_calls(warm_up)
        dist.barrier()
        begin = time.perf_counter()
        self.run_calls(calls)
        return f"took {(time.perf_counter() - begin) / calls:.12g}"

    def answer(self, words):
        if words[0] == "prepare":
            return self.prepare(words[2:])
        if words[0] == "check":
            return self.check()
        return self.time(int(words[2]), int(words[3]))


def main():
    torch.set_num_threads(1)
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    link.connect(os.environ["TUTTI_BENCH_SOCKET"])
    lines = link.makefile("r")

    def say(text):
        link.sendall((" ".join(text.split()) + "\n").encode())

    try:
        store = "file://" + os.path.join(os.environ["TUTTI_BENCH_DIRECTORY"], "store")
        dist.init_process_group("gloo", init_method=store, rank=RANK, world_size=RANKS)
        say(f"hello {RANK} PyTorch {torch.__version__} gloo")
        rank = Rank()
        for line in lines:
            if line.strip() == "end":
                break
            say(rank.answer(line.split()))
    except Exception as error:  # whatever it is, the bench is to hear it
        say(f"failed {error}")
        raise
    dist.destroy_process_group()


if __name__ == "__main__":
    try:
        main()
    except (BrokenPipeError, ConnectionResetError):
        sys.exit(1)
