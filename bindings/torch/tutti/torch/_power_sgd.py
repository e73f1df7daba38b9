"""Gradients travel as products of two thin matrices (PowerSGD, Vogels and others, 2019)."""

import math

import torch

from ._compression import MatrixHook


class PowerSGD(MatrixHook):
    def __init__(self, rank, error_feedback, from_step, not_finite):
        if not isinstance(rank, int) or rank < 1:
            raise ValueError(f"power_sgd: a rank of {rank!r}; give a whole number from 1 on")
        super().__init__("power_sgd", from_step, not_finite, error_feedback, rank=rank)
        self._rank = rank
        self._right = {}  # of each parameter: the right factor, with which the next step begins
        self._new_right = {}
        self._generator = torch.Generator().manual_seed(1)  # the same on all ranks

    @staticmethod
    def _sides(parameter):
        return parameter.shape[0], math.prod(parameter.shape[1:])

    def _is_compressed(self, parameter):
        if parameter.dim() < 2 or parameter.numel() == 0:
            return False
        rows, columns = self._sides(parameter)
        return self._rank * (rows + columns) < rows * columns

    def _begin(self, parameter):
        if id(parameter) not in self._right:
            columns = self._sides(parameter)[1]
            self._right[id(parameter)] = torch.randn(columns, self._rank, generator=self._generator)
        return self._right[id(parameter)]

    def _averages(self, matrices):
        """Of all of them, in one all_reduce."""
        together = torch.cat([matrix.reshape(-1) for matrix in matrices])
        self._average(together)
        parts = together.split([matrix.numel() for matrix in matrices])
        return [part.view(matrix.shape) for part, matrix in zip(parts, matrices)]

    def _compress(self, values, result, parameters):
        matrices = [vector.view(self._sides(parameter)) for vector, parameter in zip(values, parameters)]
        left = self._averages([matrix @ self._begin(parameter) for matrix, parameter in zip(matrices, parameters)])
        left = [torch.linalg.qr(each).Q for each in left]
        # As (matrix.T @ each).T, whose rows are read in a row.
        across = self._averages([each.T.contiguous() @ matrix for matrix, each in zip(matrices, left)])
        for i, matrix in enumerate(matrices):
            torch.matmul(left[i], across[i], out=result[i].view(matrix.shape))
            if across[i].isfinite().all():  # or the values tell whose gradient it is
                matrix.addmm_(left[i], across[i], alpha=-1)
        self._new_right = {id(parameter): each.T for parameter, each in zip(parameters, across)}

    def _keep(self, parameters):
        self._right.update(self._new_right)
        self._new_right = {}
