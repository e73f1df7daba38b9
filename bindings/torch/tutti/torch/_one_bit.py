"""Gradients travel as signs, with one scale for each tensor."""

import torch

from ._compression import MatrixHook, Memory


def _pack(signs):
    """Bit j of byte i is value j * bytes + i."""
    planes = signs.view(8, -1).to(torch.uint8)
    packed = planes[0].clone()
    for j in range(1, 8):
        packed |= planes[j] << j
    return packed


def _unpack(packed):
    """1 and -1, as float32."""
    return torch.cat([(packed >> j) & 1 for j in range(8)]).to(torch.float32).mul_(2).sub_(1)


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
    return torch.stack([part.abs().mean() if part.numel() else torch.zeros(()) for part in vector.split(counts)])


def _spread(scales, counts):
    return scales.repeat_interleave(torch.tensor(counts), output_size=sum(counts))


class OneBit(MatrixHook):
    def __init__(self, error_feedback, from_step, not_finite):
        super().__init__("one_bit", from_step, not_finite, error_feedback)
        self._owners_errors = Memory()
        self._news = []  # owner's errors and what is to become of them

    def _decode(self, row, counts):
        """A message: scales, signs."""
        scales, packed = row[: 4 * len(counts)].view(torch.float32), row[4 * len(counts) :]
        return _unpack(packed)[: sum(counts)] * _spread(scales, counts)

    def _encode(self, scales, signs):
        return torch.cat([scales.view(torch.uint8), _pack(signs)])

    def _compress(self, values, lost, result, parameters):
        ranks, rank = self._backend.size(), self._backend.rank()
        cut = _Cut([vector.numel() for vector in values], ranks)
        vector = torch.zeros(ranks * cut.piece)
        vector[: cut.total] = torch.cat(values)
        errors, moved = self._owners_errors.of(parameters)
        if moved:  # pieces have other owners now: this rank's contribution makes up for what it owes
            vector[: cut.total] += errors * ranks
            errors.zero_()
        scales = _scales(vector[: cut.total], cut.lengths)
        signs = (vector >= 0).view(ranks, -1)
        received = self._all_to_all(torch.stack([self._encode(scales, row) for row in signs]))
        rest = vector[: cut.total] - (signs.view(-1)[: cut.total] * 2.0 - 1) * _spread(scales, cut.lengths)

        first, count = cut.span(rank)
        counts = cut.counts(rank)
        average = torch.zeros(cut.piece)
        for row in received:
            average[:count] += self._decode(row, counts)
        average /= ranks
        if self._keeps_errors:
            average[:count] += errors[first : first + count]
        rows = self._all_gather(self._encode(_scales(average[:count], counts), average >= 0))
        whole = torch.cat([self._decode(row, cut.counts(owner)) for owner, row in enumerate(rows)])

        self._news = [(errors[first : first + count], average[:count] - whole[first : first + count])]
        for i, (part, rest_of_part) in enumerate(zip(whole.split(cut.lengths), rest.split(cut.lengths))):
            result[i].copy_(part)
            lost[i].copy_(rest_of_part)

    def _keep(self, parameters):
        for errors, new in self._news:
            errors.copy_(new)
        self._news = []
