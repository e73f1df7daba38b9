"""Which rank has the largest value, and where. Greedy decoding with a vocabulary cut over ranks does this for every token.

Every rank finds its own best; an all_gather of one candidate per rank lets all ranks pick the same. Of equal values the
lowest rank's counts, so the answer does not depend on who comes first.

    tutti run -n 4 -- python examples/python/argmax.py
"""

import numpy as np
from backends import finish, join

SCORES = 4096


def scores(rank, ranks):
    """Scrambled, the same wherever it is computed; from the middle rank on each rank holds the largest value once."""
    made = ((rank * 7919 + np.arange(SCORES) * 104729) % 997).astype(float)
    if rank >= ranks // 2:
        made[100 + rank] = 1000
    return made


group = join(__doc__)
mine = scores(group.rank, group.size)
index = int(mine.argmax())
candidates = group.all_gather(np.array([[mine[index], index]]))
owner = int(candidates[:, 0].argmax())  # the first of equals
value, index = candidates[owner]

right = (value, owner, index) == (1000, group.size // 2, 100 + group.size // 2)
finish(group, right, f"the largest of {group.size} x {SCORES} values is {value:.0f}, at rank {owner}, index {index:.0f}")
