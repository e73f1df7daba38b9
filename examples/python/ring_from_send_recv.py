"""An all_reduce by hand, from messages: the ring that moves 2 (p - 1) / p of the vector, whatever the number of ranks.

Every rank sends one chunk to its right neighbour and receives one from its left, 2 (p - 1) times: in the first half what
comes is added, in the second half it is final and replaces what was there.

    tutti run -n 4 -- python examples/python/ring_from_send_recv.py
"""

import numpy as np
from backends import finish, join

CHUNK = 25_000

group = join(__doc__)
p, rank = group.size, group.rank
right, left = (rank + 1) % p, (rank - 1) % p
x = np.arange(p * CHUNK, dtype="f4") % 7 + rank  # small whole numbers: exact in any order
expected = np.arange(p * CHUNK, dtype="f4") % 7 * p + p * (p - 1) / 2
chunks = x.reshape(p, CHUNK)
arrived = np.empty(CHUNK, "f4")

for step in range(p - 1):  # every chunk collects its sum on the way round
    group.send_recv(chunks[(rank - step) % p], right, arrived, left)
    chunks[(rank - step - 1) % p] += arrived
for step in range(p - 1):  # and goes round once more, finished
    group.send_recv(chunks[(rank - step + 1) % p], right, arrived, left)
    chunks[(rank - step) % p] = arrived

together = group.all_reduce(np.arange(p * CHUNK, dtype="f4") % 7 + rank)
finish(group, (x == expected).all() and (together == x).all(),
       f"a ring of {2 * (p - 1)} steps on {p} ranks gives what all_reduce gives")
