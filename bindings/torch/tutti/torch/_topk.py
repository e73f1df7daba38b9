"""Only the largest values of every gradient travel, with their places."""

import torch

from ._compression import MatrixHook, Memory


class TopK(MatrixHook):
    def __init__(self, share, momentum, error_feedback, from_step, not_finite):
        if not 0 < share <= 1:
            raise ValueError(f"topk: a share of {share!r}; give one above 0 and up to 1, 0.01 for a value of a hundred")
        if not 0 <= momentum < 1:
            raise ValueError(f"topk: a momentum of {momentum!r}; give one from 0 to below 1")
        super().__init__("topk", from_step, not_finite, error_feedback, share=share, momentum=momentum)
        self._share, self._momentum = share, momentum
        self._velocities = Memory()
        self._moved = None  # velocities of the bucket that is being exchanged,
        self._bucket = ()  # and its parameters

    def _contribution(self, gradients, parameters):
        if self._momentum == 0:
            return gradients
        self._bucket = parameters
        self._moved = self._velocities.of(parameters)[0] * self._momentum + gradients
        return self._moved

    def _keep(self, parameters):
        if self._momentum != 0:
            self._velocities.of(parameters)[0].copy_(self._moved)

    def _warm_up(self, buffer, parameters):
        if self._momentum == 0:
            self._average(buffer)
            return
        gradients = buffer.float()
        buffer.copy_(self._contribution(gradients, parameters))
        self._average(buffer)
        if self._accept(buffer, gradients, parameters):
            self._keep(parameters)

    def _exchange(self, buffer, parameters):
        if buffer.numel() >= 2**31:
            raise ValueError(f"topk: a bucket of {buffer.numel()} values; places are told in 31 bits")
        super()._exchange(buffer, parameters)

    def _compress(self, values, result, parameters):
        places, offset, offsets = [], 0, []
        for vector in values:
            count = max(1, round(self._share * vector.numel()))
            places.append(vector.abs().topk(count, sorted=False).indices)
            offsets.append(offset)
            offset += vector.numel()
        sent = torch.cat([vector[place] for vector, place in zip(values, places)])
        where = torch.cat([place + begin for place, begin in zip(places, offsets)]).to(torch.int32)
        total = torch.zeros(offset)
        for row in self._all_gather(torch.cat([sent.view(torch.int32), where])):  # in the order of ranks, everywhere
            theirs, at = row.split(sent.numel())
            total.index_add_(0, at.long(), theirs.view(torch.float32))
        total /= self._backend.size()
        for part, average in zip(result, total.split([vector.numel() for vector in values])):
            part.copy_(average)
        for vector, place in zip(values, places):
            vector[place] = 0
        self._stop_velocities(parameters, places)

    def _stop_velocities(self, parameters, places):
        """What was sent starts anew: what came before must not push it further."""
        if self._momentum == 0:
            return
        lengths = [parameter.numel() for parameter in self._bucket]
        parts = dict(zip(map(id, self._bucket), self._moved.split(lengths)))
        for parameter, place in zip(parameters, places):
            parts[id(parameter)][place] = 0
