"""What a receive has received."""

from typing import NamedTuple


class Received(NamedTuple):
    """Whose message it was: its source, its tag and its length in elements."""

    source: int
    tag: int
    count: int
