"""torch's fused AdamW on one thread, at the sizes of optimizers_bench: the median of several steps, in bytes per second of this thread.

A step reads values, gradient and two states and writes all but the gradient: 28 bytes per element.
    python bench/kernels/torch_optimizer_bench.py
"""

import statistics
import time

import torch

BYTES_PER_ELEMENT = 28

torch.set_num_threads(1)
for elements in (1 << 16, 1 << 24):
    values = torch.full((elements,), 0.01, requires_grad=True)
    values.grad = torch.full((elements,), 0.01)
    optimizer = torch.optim.AdamW([values], lr=1e-3, weight_decay=0, fused=True)
    repeats = max(1, (1 << 22) // elements)
    seconds = []
    for _ in range(20):
        begin = time.thread_time()
        for _ in range(repeats):
            optimizer.step()
        seconds.append((time.thread_time() - begin) / repeats)
    median = statistics.median(seconds[2:])
    print(f"torch {torch.__version__} fused AdamW, {elements} elements: {median * 1e6:.0f} us, "
          f"{BYTES_PER_ELEMENT * elements / median / 2**30:.1f} GiB/s")
