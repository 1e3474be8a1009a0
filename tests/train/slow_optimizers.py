"""Optimizers as their papers write them, in fp64 and over whole parameters: what those of train/engine must equal.

Each is torch's interface over named parameters, with one learning rate for all, which ``plain.make_step`` sets.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

BETAS = (0.9, 0.95)


def decay(value: Tensor) -> float:
    return 0.1 if value.dim() > 1 else 0.0


class Slow(torch.optim.Optimizer):
    """Base: updates each matrix or vector. ``split`` has the rows of those in a parameter by the end of its module."""

    def __init__(
        self, parameters: Mapping[str, nn.Parameter], epsilon: float, split: Mapping[str, Sequence[int]]
    ) -> None:
        super().__init__(list(parameters.values()), {"lr": 0.0})
        self.parameters, self.epsilon, self.split = parameters, epsilon, split

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        rate = self.param_groups[0]["lr"]
        for name, parameter in self.parameters.items():
            module = name.rpartition(".")[0]
            rows = next((list(rows) for end, rows in self.split.items() if module.endswith(end)), [len(parameter)])
            parts = zip(parameter.double().split(rows), parameter.grad.double().split(rows), strict=True)
            updated = []
            for number, (value, gradient) in enumerate(parts):
                state = self.state[parameter].setdefault(number, {"step": 0})
                state["step"] += 1
                updated.append(self.updated(name, value, gradient, state, rate))
            parameter.copy_(torch.cat(updated))

    def updated(self, name: str, value: Tensor, gradient: Tensor, state: dict, rate: float) -> Tensor:
        raise NotImplementedError

    def moments(self, gradient: Tensor, state: dict) -> tuple[Tensor, Tensor]:
        """Adam's two means, corrected for their bias."""
        for name, beta, seen in (("m", BETAS[0], gradient), ("v", BETAS[1], gradient**2)):
            state[name] = beta * state.get(name, 0) + (1 - beta) * seen
        m, v = (state[name] / (1 - beta ** state["step"]) for name, beta in zip("mv", BETAS, strict=True))
        return m, v


class SlowStableAdamW(Slow):
    """Algorithm 2 of Wortsman et al. 2023, with the usual correction of the bias, which comes to the same."""

    def updated(self, name: str, value: Tensor, gradient: Tensor, state: dict, rate: float) -> Tensor:
        m, v = self.moments(gradient, state)
        rms = (gradient**2 / torch.maximum(v, torch.tensor(self.epsilon**2))).mean().sqrt()
        rate = rate / max(1.0, float(rms))
        return value - rate * decay(value) * value - rate * m / (v.sqrt() + self.epsilon)


class SlowMuon(Slow):
    """Muon by the singular values of each matrix; AdamW for all parameters that are no hidden matrix."""

    momentum = 0.95

    def updated(self, name: str, value: Tensor, gradient: Tensor, state: dict, rate: float) -> Tensor:
        left = value - rate * decay(value) * value
        if value.dim() < 2 or name in ("embedding.weight", "positions.weight", "head.weight"):
            m, v = self.moments(gradient, state)
            return left - rate * m / (v.sqrt() + self.epsilon)
        state["m"] = self.momentum * state.get("m", 0) + (1 - self.momentum) * gradient
        nesterov = self.momentum * state["m"] + (1 - self.momentum) * gradient
        return left - rate * 0.2 * max(value.shape) ** 0.5 * orthogonalized(nesterov)


class SlowAdafactor(Slow):
    """Algorithms 4 to 6 of Shazeer and Stern 2018, with V as a whole matrix."""

    def updated(self, name: str, value: Tensor, gradient: Tensor, state: dict, rate: float) -> Tensor:
        beta, squares = 1 - state["step"] ** -0.8, gradient**2 + self.epsilon**2
        means = (squares.mean(1), squares.mean(0)) if value.dim() > 1 else (squares,)
        before = state.get("means", (0,) * len(means))
        state["means"] = [beta * old + (1 - beta) * new for old, new in zip(before, means, strict=True)]
        second = state["means"][0]
        if value.dim() > 1:
            second = torch.outer(*state["means"]) / second.mean()
        update = gradient / second.sqrt()
        update = update / max(1.0, float(update.square().mean().sqrt()))
        return value - rate * max(1e-3, float(value.square().mean().sqrt())) * update


def orthogonalized(matrix: Tensor) -> Tensor:
    """The polynomial of Newton and Schulz's iteration, five times, on the singular values alone."""
    left, singular, right = torch.linalg.svd(matrix, full_matrices=False)
    singular = singular / singular.square().sum().sqrt()
    for _ in range(5):
        singular = 3.4445 * singular - 4.7750 * singular**3 + 2.0315 * singular**5
    return left @ torch.diag(singular) @ right
