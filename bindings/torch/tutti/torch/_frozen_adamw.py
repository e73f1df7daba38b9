"""AdamW whose estimate of variances stays as it was after some steps."""

import torch


class FrozenAdamW(torch.optim.AdamW):
    """AdamW, until `freeze_after` steps were made of a parameter; from then on its variances stay as they are.

    Gradients that are only signs say nothing of variances: freeze them where `one_bit` begins to compress, by
    freeze_after=from_step.
    """

    def __init__(self, params, freeze_after, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2):
        if not isinstance(freeze_after, int) or freeze_after < 1:
            raise ValueError(f"FrozenAdamW: freeze_after={freeze_after!r}; give a whole number of steps, from 1 on")
        super().__init__(params, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)
        self.freeze_after = freeze_after

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        frozen = []
        for group in self.param_groups:
            for parameter in group["params"]:
                made = self.state[parameter].get("step", 0) if parameter in self.state else 0
                if parameter.grad is not None and made >= self.freeze_after:
                    frozen.append((group, parameter, parameter.grad))
                    parameter.grad = None
        super().step()
        for group, parameter, gradient in frozen:
            parameter.grad = gradient
            self._step_frozen(group, parameter)
        return loss

    def _step_frozen(self, group, parameter):
        state, lr = self.state[parameter], group["lr"]
        mean_beta, variance_beta = group["betas"]
        state["step"] += 1
        state["exp_avg"].lerp_(parameter.grad, 1 - mean_beta)
        variance = state["exp_avg_sq"] / (1 - variance_beta**self.freeze_after)
        parameter.mul_(1 - lr * group["weight_decay"])
        steps = float(state["step"])
        parameter.addcdiv_(state["exp_avg"], variance.sqrt_().add_(group["eps"]), value=-lr / (1 - mean_beta**steps))
