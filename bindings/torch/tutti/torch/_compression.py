"""What all hooks of tutti.torch.hooks have: a group and a thread of their own, and memory for each parameter.

A bucket's exchange runs on the hook's thread, in the order of buckets, which is the same on every rank, while the
backward pass goes on. Its calls go by a duplicate of the model's group, so that they are not mixed with other calls.
"""

import concurrent.futures
import itertools

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

_TYPES = (torch.float32, torch.bfloat16, torch.float16)


def _blocking(options):
    if hasattr(options, "asyncOp"):
        options.asyncOp = False
    return options


class Memory:
    """A float32 value for each value of the gradients, zero at first: one tensor for each bucket.

    DDP makes its buckets anew after the first backward pass; values stay with their parameter.
    """

    def __init__(self):
        self._of = {}  # of each parameter: its part of a bucket's tensor
        self._buckets = {}  # keys are tuples of parameters' ids; DDP keeps the parameters

    def of(self, parameters):
        """The tensor of the bucket of these parameters, and whether it was made by this call."""
        key = tuple(map(id, parameters))
        if key in self._buckets:
            return self._buckets[key], False
        parts = [self._of.get(each, torch.zeros(parameter.numel())) for each, parameter in zip(key, parameters)]
        made = torch.cat([part.reshape(-1) for part in parts])
        self._buckets = {other: tensor for other, tensor in self._buckets.items() if not set(other) & set(key)}
        self.put(parameters, made)
        return made, True

    def put(self, parameters, tensor):
        """The bucket's tensor is this one from now on; of() has told one before."""
        key = tuple(map(id, parameters))
        self._of.update(zip(key, tensor.split([parameter.numel() for parameter in parameters])))
        self._buckets[key] = tensor


class Hook:
    """A communication hook; one for each model. Subclasses say in _exchange what becomes of a bucket."""

    def __init__(self, name, from_step, not_finite, **settings):
        if not isinstance(from_step, int) or from_step < 0:
            raise ValueError(f"{name}: from_step is how many steps go uncompressed, from 0 on, not {from_step!r}")
        if not_finite not in ("fail", "pass"):
            raise ValueError(f'{name}: not_finite is "fail" or "pass", not {not_finite!r}')
        self.__name__ = self.__qualname__ = name  # DDP looks at them
        self._settings = {**settings, "from_step": from_step, "not_finite": not_finite}
        self._from_step, self._not_finite = from_step, not_finite
        self._step = 0
        self._backend = None
        self._names = {}
        self._worker = concurrent.futures.ThreadPoolExecutor(1, f"tutti-{name}")

    def __repr__(self):
        return f"{self.__name__}({', '.join(f'{name}={value!r}' for name, value in self._settings.items())})"

    @property
    def backend(self):
        if self._backend is None:
            raise ValueError(
                f"{self.__name__} serves no model: pass it to model.register_comm_hook(None, hook) of a "
                "DistributedDataParallel, as it is and not inside of another hook"
            )
        return self._backend

    def attach(self, backend, group, parameters, names):
        """The model's part of registering; collective over the group. `names` has the parameters' names."""
        if self._backend is not None:
            raise ValueError(f"this {self.__name__} serves another model, whose errors it keeps; make one for each")
        everyones = [None] * backend.size()
        dist.all_gather_object(everyones, repr(self), group=group)
        for rank, theirs in enumerate(everyones):
            if theirs != everyones[0]:
                raise ValueError(
                    f"ranks have registered different hooks: rank 0 {everyones[0]}, rank {rank} {theirs}; register the "
                    "same hook with the same settings on all ranks"
                )
        for parameter in parameters:
            if parameter.dtype not in _TYPES:
                raise ValueError(
                    f"{self.__name__}: {names.get(id(parameter), 'a parameter')} is {parameter.dtype}, which cannot be "
                    "compressed; only float32, bfloat16 and float16 can"
                )
        self._names = names
        self._backend = backend.duplicate(f"{backend.name()} {self.__name__}")
        self._attached()

    def __call__(self, state, bucket):
        self.backend  # noqa: B018, says what is wrong where there is none
        buffer, parameters = bucket.buffer(), bucket.parameters()
        if buffer.layout != torch.strided:
            raise ValueError(f"{self.__name__}: sparse gradients cannot be compressed; give the layer sparse=False")
        compresses = self._step >= self._from_step
        self._step += bucket.is_last()
        outcome = []
        ended = torch.futures.Future()

        def finish(_):
            if isinstance(outcome[0], BaseException):
                raise outcome[0]
            return buffer

        future = ended.then(finish)
        self._worker.submit(self._carry_out, buffer, parameters, compresses, outcome, ended)
        return future

    def _carry_out(self, buffer, parameters, compresses, outcome, ended):
        try:
            if compresses:
                self._exchange(buffer, parameters)
            else:
                self._warm_up(buffer, parameters)
            outcome.append(None)
        except BaseException as error:
            outcome.append(error)
        finally:
            ended.set_result(None)

    # What subclasses have.

    def _attached(self):
        """There is a backend now. Collective."""

    def _exchange(self, buffer, parameters):
        """Makes of the bucket's gradients the average of all ranks; blocking."""
        raise NotImplementedError

    def _warm_up(self, buffer, parameters):
        """The same without compression."""
        self._average(buffer)

    # What they may use.

    def _average(self, tensor):
        options = _blocking(c10d.AllreduceOptions())
        options.reduceOp = dist.ReduceOp.AVG
        self._wait(self._backend.allreduce([tensor], options))

    def _all_gather(self, tensor):
        """Every rank's, one row each."""
        output = tensor.new_empty((self._backend.size(), tensor.numel()))
        self._wait(self._backend._allgather_base(output, tensor, _blocking(c10d.AllgatherOptions())))
        return output

    def _all_to_all(self, tensor):
        """Row r goes to rank r, and row r of the result came from it."""
        output = torch.empty_like(tensor)
        self._wait(self._backend.alltoall_base(output, tensor, [], [], _blocking(c10d.AllToAllOptions())))
        return output

    @staticmethod
    def _wait(work):
        if work is not None:
            work.wait()

    def _culprit(self, values, parameters):
        """The name of this rank's first parameter that has a gradient which is not finite, or None."""
        for parameter, part in zip(parameters, values.split([parameter.numel() for parameter in parameters])):
            if not torch.isfinite(part).all():
                return self._names.get(id(parameter), f"a parameter of shape {tuple(parameter.shape)}")
        return None

    def _accept(self, result, values, parameters):
        """Whether the result, which all ranks have alike, is finite. Raises otherwise, unless that may pass; `values`
        are not finite then where a gradient of this rank is not."""
        if all(extreme.isfinite() for extreme in result.aminmax()):  # many times as fast as isfinite() of all
            return True
        if self._not_finite == "pass":
            return False
        name = self._culprit(values, parameters)
        where = f"rank {self._backend.rank()}: the gradient of {name} is" if name else "a gradient of another rank is"
        raise ValueError(
            f'{self.__name__}: {where} not finite; look where it comes from, or let it pass with not_finite="pass"'
        )


class MatrixHook(Hook):
    """Of a hook that compresses tensors of two dimensions and more; others go as they are, in one all_reduce."""

    def __init__(self, name, from_step, not_finite, error_feedback, **settings):
        super().__init__(name, from_step, not_finite, error_feedback=bool(error_feedback), **settings)
        self._keeps_errors = bool(error_feedback)
        self._errors = Memory()

    def _is_compressed(self, parameter):
        return parameter.dim() > 1

    def _contribution(self, gradients, parameters):
        """What this rank adds to the sum, but for errors: a tensor that stays as it is."""
        return gradients

    def _compress(self, values, result, parameters):
        """Writes to `result` the average of what all ranks have of these parameters, and leaves in `values` what it
        lacks of this rank's. Lists have a vector for each parameter."""
        raise NotImplementedError

    def _keep(self, parameters):
        """The last exchange counts: what it changed, apart from errors, is kept."""

    def _exchange(self, buffer, parameters):
        # Gradients of large models are read and written as seldom as may be: that is what a hook takes of a core.
        result = buffer if buffer.dtype == torch.float32 else buffer.float()
        lengths = [parameter.numel() for parameter in parameters]
        contribution = self._contribution(result, parameters)
        values = contribution + self._errors.of(parameters)[0] if self._keeps_errors else contribution.clone()
        chosen = [self._is_compressed(parameter) for parameter in parameters]

        def parts(vector, of_chosen):
            return [part for part, is_chosen in zip(vector.split(lengths), chosen) if is_chosen == of_chosen]

        plain = parts(values, False)
        if plain:
            together = torch.cat(plain)
            self._average(together)
            averages = together.split([part.numel() for part in plain])
        if any(chosen):
            compressed = list(itertools.compress(parameters, chosen))
            self._compress(parts(values, True), parts(result, True), compressed)
        for part, place, average in zip(plain, parts(result, False), averages if plain else ()):
            place.copy_(average)
            if average.isfinite().all():  # or the values tell whose gradient it is
                part.zero_()
        if self._accept(result, values, parameters):
            self._keep(parameters)
            if self._keeps_errors:
                self._errors.put(parameters, values)
        if result is not buffer:
            buffer.copy_(result)
