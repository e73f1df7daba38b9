"""Softmax of a vector that is cut over the ranks, without overflow: first the maximum of all, then the sum of all.

The loss of a language model whose vocabulary is cut over tensor parallel ranks is computed like this.

    tutti run -n 4 -- python examples/python/softmax.py
"""

import numpy as np
from backends import finish, join

LENGTH = 50_257  # not a multiple of anything: parts differ in length

group = join(__doc__)
first, end = LENGTH * group.rank // group.size, LENGTH * (group.rank + 1) // group.size
logits = np.arange(LENGTH) * 7919 % 10_007 / 10  # up to 1000, whose exponential no double can hold
part = logits[first:end]

largest = group.all_reduce(np.array([part.max()]), "maximum")[0]
exponentials = np.exp(part - largest)
total = group.all_reduce(np.array([exponentials.sum()]))[0]
probabilities = exponentials / total

# The same on one rank alone.
alone = np.exp(logits - logits.max())
wrong = np.abs(probabilities - alone[first:end] / alone.sum()).max()
added = group.all_reduce(np.array([probabilities.sum()]))[0]
finish(group, wrong < 1e-14 and abs(added - 1) < 1e-12,
       f"softmax of {LENGTH} logits up to {largest:g}: probabilities add up to {added:.12f}, {wrong:.1e} from one rank's")
