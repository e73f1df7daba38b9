"""How the cheat sheet draws: rank 0 gathers what the ranks hold, and prints it.

An element is a number with one bit set: element i of rank r is bit 10 r + i, drawn as a letter and a digit, B3 for rank
1's element 3. A sum of such numbers has one bit for each addend, so that its picture shows exactly what was added, ABCD0;
something added twice would carry into another bit and show as another cell.
"""

import numpy as np

MOST_RANKS, MOST_ELEMENTS = 6, 10
NOTHING = -1  # a cell that is not there


def elements(rank, count):
    """A0 A1 A2 for rank 0."""
    return np.array([1 << (MOST_ELEMENTS * rank + i) for i in range(count)], np.int64)


def cell(value):
    """What an element says: its ranks' letters and its index."""
    if value == 0:
        return "··"
    letters, index = "", None
    for rank in range(MOST_RANKS):
        bits = value >> (MOST_ELEMENTS * rank) & ((1 << MOST_ELEMENTS) - 1)
        if bits == 0:
            continue
        here = bits.bit_length() - 1
        if bits != 1 << here or index not in (None, here):
            return "?"  # no sum of one index
        letters, index = letters + chr(ord("A") + rank), here
    return f"{letters}{index}"


class Sheet:
    """Draws every verb before and after, and remembers whether all came out right."""

    def __init__(self, group):
        self.group, self.right = group, True

    def draw(self, verb, call, before, after, expected, use):
        """before, after, expected: this rank's elements."""
        same = np.array_equal(after, expected)
        self.right = self.right and same
        columns = [self._gathered(before), self._gathered(after)]
        if self.group.rank != 0:
            return
        print(f"\n{verb}\n    {call}")
        drawn = [_boxes(rows) for rows in columns]
        width = max(len(line) for line in drawn[0])
        for i, (left, right) in enumerate(zip(*drawn)):
            name = f"rank {i - 1}" if 0 < i < len(drawn[0]) - 1 else ""
            arrow = "→" if i == len(drawn[0]) // 2 else " "
            print(f"  {name:7} {left:{width}}  {arrow}  {right}")
        print(f"  in training: {use}")

    def _gathered(self, values):
        padded = np.full(MOST_ELEMENTS, NOTHING, np.int64)
        padded[:len(values)] = values
        everyone = self.group.all_gather(padded).reshape(self.group.size, MOST_ELEMENTS)
        return [[cell(int(value)) for value in row if value != NOTHING] for row in everyone]


def _boxes(rows):
    """One line per rank between two rulers."""
    most = max((len(row) for row in rows), default=0)
    width = max((len(text) for row in rows for text in row), default=0)
    ruler = "─" * (width + 2)
    lines = ["┌" + "┬".join([ruler] * most) + "┐"] if most else [""]
    for row in rows:
        cells = [f" {text:^{width}} " for text in row] + [" " * (width + 2)] * (most - len(row))
        lines.append("│" + "│".join(cells) + "│" if most else "")
    return lines + (["└" + "┴".join([ruler] * most) + "┘"] if most else [""])
