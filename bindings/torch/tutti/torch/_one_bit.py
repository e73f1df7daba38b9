"""Gradients travel as signs, with one scale for each tensor."""

import torch

from ._compression import MatrixHook, Memory


_SIGNS = torch.tensor([[1.0 - 2 * (byte >> i & 1) for i in range(8)] for byte in range(256)])  # of every byte's bits


def _pack(values):
    """Bit i of a byte is set where the i-th of 8 values, one behind the other, is negative."""
    eights = torch.signbit(values).view(torch.int64)  # of a byte for each value
    return ((eights * 0x0102040810204080) >> 56).to(torch.uint8)  # byte i is moved to bit 56 + i


def _unpack(packed):
    """1 and -1, as float32."""
    return _SIGNS.index_select(0, packed.int()).view(-1)


class _Cut:
    """Tensors, one behind the other, cut into a piece for each rank: a whole number of 32 values, so that what travels
    is a whole number of words."""

    def __init__(self, lengths, ranks):
        self.lengths, self.total = lengths, sum(lengths)
        self.piece = -(-self.total // (32 * ranks)) * 32

    def span(self, rank):
        """First value and number of values of a rank's piece."""
        first = min(rank * self.piece, self.total)
        return first, min(self.piece, self.total - first)

    def counts(self, rank):
        """How many values of each tensor are in a rank's piece."""
        first, count = self.span(rank)
        found, begin = [], 0
        for length in self.lengths:
            found.append(max(0, min(begin + length, first + count) - max(begin, first)))
            begin += length
        return found


def _scales(vector, counts):
    """The mean size of each tensor's values."""
    return torch.stack([part.abs().sum() / max(1, part.numel()) for part in vector.split(counts)])


class OneBit(MatrixHook):
    def __init__(self, error_feedback, from_step, not_finite):
        super().__init__("one_bit", from_step, not_finite, error_feedback)
        self._owners_errors = Memory()
        self._news = []  # owner's errors and what is to become of them

    def _decode(self, row, counts):
        """A message: scales, signs."""
        scales, packed = row[: 4 * len(counts)].view(torch.float32), row[4 * len(counts) :]
        values = _unpack(packed)[: sum(counts)]
        for part, scale in zip(values.split(counts), scales):
            part.mul_(scale)
        return values

    def _encode(self, scales, values):
        return torch.cat([scales.view(torch.uint8), _pack(values)])

    def _compress(self, values, result, parameters):
        ranks, rank = self._backend.size(), self._backend.rank()
        cut = _Cut([vector.numel() for vector in values], ranks)
        vector = torch.cat([*values, torch.zeros(ranks * cut.piece - cut.total)])
        errors, moved = self._owners_errors.of(parameters)
        if moved:  # pieces have other owners now: this rank's contribution makes up for what it owes
            vector[: cut.total] += errors * ranks
            errors.zero_()
        scales = _scales(vector[: cut.total], cut.lengths)
        received = self._all_to_all(torch.stack([self._encode(scales, row) for row in vector.view(ranks, -1)]))
        for rest, part, scale in zip(values, vector.split([*cut.lengths, vector.numel() - cut.total]), scales):
            torch.sub(part, torch.copysign(scale, part), out=rest)

        first, count = cut.span(rank)
        counts = cut.counts(rank)
        average = torch.zeros(cut.piece)
        for row in received:
            average[:count] += self._decode(row, counts)
        average /= ranks
        if self._keeps_errors:
            average[:count] += errors[first : first + count]
        rows = self._all_gather(self._encode(_scales(average[:count], counts), average))
        whole = torch.cat([self._decode(row, cut.counts(owner)) for owner, row in enumerate(rows)])

        self._news = [(errors[first : first + count], average[:count] - whole[first : first + count])]
        for place, part in zip(result, whole.split(cut.lengths)):
            place.copy_(part)

    def _keep(self, parameters):
        for errors, new in self._news:
            errors.copy_(new)
        self._news = []
