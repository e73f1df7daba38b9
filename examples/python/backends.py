"""One group, three ways to reach it, so that every example runs on each: --backend numpy | tutti | gloo.

numpy is the Python package of Tutti (`import tutti`). tutti and gloo are backends of torch.distributed: the arrays of the
examples become tensors that share their memory. The verbs have the names and the meaning of tutti.Communicator.
"""

import argparse
import sys

import numpy as np

BACKENDS = ("numpy", "tutti", "gloo")


class Torch:
    """torch.distributed, called with NumPy arrays."""

    def __init__(self, backend):
        import torch
        import torch.distributed as dist

        if backend == "tutti":
            import tutti.torch  # noqa: F401  registers the backend
        dist.init_process_group(backend)
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self._dist, self._tensor = dist, torch.from_numpy
        ops = dist.ReduceOp
        self._ops = {"sum": ops.SUM, "product": ops.PRODUCT, "minimum": ops.MIN, "maximum": ops.MAX}

    def close(self):
        self._dist.destroy_process_group()

    def all_reduce(self, array, op="sum"):
        self._dist.all_reduce(self._tensor(array), self._ops[op])
        return array

    def reduce(self, array, op="sum", root=0):
        # Elsewhere than at the root torch leaves the tensor undefined.
        self._dist.reduce(self._tensor(array if self.rank == root else array.copy()), root, self._ops[op])
        return array if self.rank == root else None

    def broadcast(self, array, root=0):
        self._dist.broadcast(self._tensor(array), root)
        return array

    def all_gather(self, array):
        whole = np.empty((self.size * len(array), *array.shape[1:]), array.dtype)
        self._dist.all_gather_into_tensor(self._tensor(whole), self._tensor(array))
        return whole

    def gather(self, array, root=0):
        parts = [np.empty_like(array) for _ in range(self.size)] if self.rank == root else None
        tensors = None if parts is None else [self._tensor(part) for part in parts]
        self._dist.gather(self._tensor(array), tensors, root)
        return None if parts is None else np.concatenate(parts)

    def scatter(self, array, out, root=0):
        chunks = None
        if self.rank == root:
            chunks = [self._tensor(np.ascontiguousarray(chunk)) for chunk in np.split(array, self.size)]
        self._dist.scatter(self._tensor(out), chunks, root)
        return out

    def reduce_scatter(self, array, op="sum"):
        out = np.empty((len(array) // self.size, *array.shape[1:]), array.dtype)
        self._dist.reduce_scatter_tensor(self._tensor(out), self._tensor(array), self._ops[op])
        return out

    def all_to_all(self, array):
        out = np.empty_like(array)
        self._dist.all_to_all_single(self._tensor(out), self._tensor(array))
        return out

    def send(self, array, peer):
        self._dist.send(self._tensor(array), peer)

    def recv(self, array, source):
        self._dist.recv(self._tensor(array), source)

    def send_recv(self, array, destination, out, source):
        p2p = self._dist.P2POp
        works = self._dist.batch_isend_irecv([p2p(self._dist.isend, self._tensor(array), destination),
                                              p2p(self._dist.irecv, self._tensor(out), source)])
        for work in works:
            work.wait()

    def barrier(self):
        self._dist.barrier()


def join(description):
    """Reads --backend and joins the group."""
    parser = argparse.ArgumentParser(description=description.strip().splitlines()[0])
    parser.add_argument("--backend", choices=BACKENDS, default="numpy")
    backend = parser.parse_args().backend
    if backend != "numpy":
        return Torch(backend)
    import tutti

    return tutti.init()


def finish(group, right, words):
    """Rank 0 says what came out; the program fails on every rank unless it is right on all of them."""
    right = bool(group.all_reduce(np.array([1 if right else 0]), "minimum")[0])
    if group.rank == 0:
        print(words if right else f"WRONG: {words}", flush=True)
    group.close()
    sys.exit(0 if right else 1)
