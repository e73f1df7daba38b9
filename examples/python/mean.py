"""Mean and variance of a data set that is cut over the ranks: what synchronised batch norm does.

First the mean of all, then the deviations from it: the values lie around a billion, where the shortcut "mean of squares
minus square of mean" has no correct digit left.

    tutti run -n 4 -- python examples/python/mean.py
"""

import numpy as np
from backends import finish, join

VALUES = 1_000_000

group = join(__doc__)
first, end = VALUES * group.rank // group.size, VALUES * (group.rank + 1) // group.size
part = 1e9 + np.arange(first, end) % 10

count_and_sum = group.all_reduce(np.array([len(part), part.sum()]))
mean = count_and_sum[1] / count_and_sum[0]
deviations = group.all_reduce(np.array([((part - mean) ** 2).sum()]))
variance = deviations[0] / count_and_sum[0]

# Of the digits 0 to 9, equally often: mean 4.5, variance 8.25.
right = count_and_sum[0] == VALUES and abs(mean - 1e9 - 4.5) < 1e-5 and abs(variance - 8.25) < 1e-5
finish(group, right, f"ranks: {group.size}, values: {VALUES}, mean 1e9 + {mean - 1e9:.6f}, variance {variance:.6f}")
