"""Every verb of distributed training on one sheet: how it is called, and what each rank has before and after.

All of it happens between the ranks while it is drawn; a rank that gets something else than it should makes the program
fail. Two to six ranks.

    tutti run -n 4 --no-prefix -- python examples/python/cheatsheet.py
"""

import sys

import numpy as np
from backends import Torch, finish, join
from sheet import MOST_RANKS, Sheet, elements

comm = join(__doc__)
if not 2 <= comm.size <= MOST_RANKS:
    sys.exit(f"the sheet has room for 2 to {MOST_RANKS} ranks, not {comm.size}")
rank, size, root = comm.rank, comm.size, 0
sheet = Sheet(comm)
nothing = np.zeros(0, np.int64)


def total(count, ranks=range(size)):
    return sum((elements(r, count) for r in ranks), np.zeros(count, np.int64))


def show(verb, call, x, expected, use):
    """Makes the call as it is written down, with x; what it returns is what comes after."""
    before = x.copy()
    after = eval(call, {"comm": comm, "x": x, "y": np.zeros(1, np.int64), "root": root, "right": right, "left": left})
    sheet.draw(verb, call, before, nothing if after is None else after, expected, use)


right, left = (rank + 1) % size, (rank - 1) % size
mine = elements(rank, 2)
show("broadcast", "comm.broadcast(x, root)", mine.copy(), elements(root, 2),
     "at the start of training all ranks take rank 0's weights")
show("reduce", 'comm.reduce(x, "sum", root)', mine.copy(), total(2) if rank == root else nothing,
     "one rank logs the sum of all losses")
show("all_reduce", 'comm.all_reduce(x, "sum")', mine.copy(), total(2),
     "data parallel training sums gradients; tensor parallel layers sum partial results")
if not isinstance(comm, Torch):  # which has no scans
    show("scan", "comm.scan(x)", mine[:1].copy(), total(1, range(rank + 1)),
         "running totals over ranks: up to which token of the data all ranks so far have read")
    show("exclusive_scan", "comm.exclusive_scan(x)", mine[:1].copy(), total(1, range(rank)) if rank else mine[:1],
         "where this rank's part begins; rank 0's array is left alone")
show("scatter", "comm.scatter(x, y, root)", elements(rank, size) if rank == root else nothing,
     elements(root, size)[rank:rank + 1], "one rank reads the data and deals it out")
everyone = np.array([elements(r, 1)[0] for r in range(size)])
show("gather", "comm.gather(x, root)", mine[:1].copy(), everyone if rank == root else nothing,
     "one rank writes what all ranks have")
show("all_gather", "comm.all_gather(x)", mine[:1].copy(), everyone,
     "FSDP: every rank gets the whole layer from the shards that the ranks own")
show("reduce_scatter", 'comm.reduce_scatter(x, "sum")', elements(rank, size), total(size)[rank:rank + 1],
     "ZeRO and FSDP: every rank gets the summed gradients of the weights it owns")
show("all_to_all", "comm.all_to_all(x)", elements(rank, size), np.array([elements(r, size)[rank] for r in range(size)]),
     "experts: every rank sends each expert its tokens")

y = np.zeros(2, np.int64)
comm.send_recv(mine, right, y, left)
sheet.draw("send and recv", "comm.send_recv(x, right, y, left)", mine, y, elements(left, 2),
           "pipelines: activations to the next stage, gradients back")
comm.barrier()
finish(comm, sheet.right, f"\nbarrier: all {size} ranks were here, and every picture is what it should be")
