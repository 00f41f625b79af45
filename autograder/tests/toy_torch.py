"""Torch toys: what later chapters' exercises look like to a subject (used by the tests only)."""

import torch


class Linear(torch.nn.Module):
    """x Wᵀ, scaled."""

    def __init__(self, inputs: int, outputs: int, scale: float = 1.0) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(outputs, inputs))
        self.scale = scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.scale * x @ self.weight.T


class DetachedLinear(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.scale * x @ self.weight.detach().T


def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Elementwise."""
    return a * b


def product_detached(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a * torch.from_numpy(b.detach().numpy())


def product_detached_views(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a * (b if b.is_contiguous() else b.detach().clone())


def product_doubled(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a * b + (a - a.detach()) * b


def has_graph(x: torch.Tensor) -> bool:
    return (x * torch.ones(2, requires_grad=True)).requires_grad


class Sum:
    """Remembers what it was given."""

    def __init__(self, start: float) -> None:
        self.total = start

    def add(self, x: torch.Tensor) -> float:
        self.total += float(x.sum())
        return self.total


def powers(x: torch.Tensor):
    """x⁰, x¹, x², … without an end."""
    power = torch.ones_like(x)
    while True:
        yield power
        power = power * x
