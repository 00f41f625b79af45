"""Exercise 24_mamba/selective_copy_data: symbols in noise, asked for at the end."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from attend_solutions import mamba
from torch import Tensor

from attend_grader.checks.exercise import Call, Contract, Exercise, Probe, Property, Slip
from attend_grader.checks.helpers import agrees, worked
from attend_grader.checks.subject import Subject


def _case(
    rng: np.random.Generator,
    batch: int,
    tokens: int,
    asked: int,
    apart: float = 0.05,
    least: float = 0.0,
) -> Call:
    """Keys so far apart, from the least on."""
    order = rng.permuted(np.tile(np.arange(tokens), (batch, 1)), axis=1)
    keys = (order * apart + least).round(2)
    symbols = rng.integers(2, 12, (batch, asked))
    return Call((torch.from_numpy(keys).float(), torch.from_numpy(symbols)))


def _usual(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    yield "", _case(rng, 3, 9, 4)
    yield "", _case(rng, 1, 20, 5, 0.01, 0.4)
    yield "keys below 0", _case(rng, 2, 6, 4, 0.7, -5.0)
    yield "keys above 1", _case(rng, 2, 9, 5, 30.0, 2.0)
    keys, symbols = _case(rng, 2, 9, 5, 1.0).args
    far = torch.where(keys == keys.max(dim=1, keepdim=True).values, -1e12, keys)
    yield "one key of −10¹² beside small ones", Call((far, symbols))
    yield "float64 keys 10⁻⁹ apart", Call((1 + 1e-9 * keys.double(), symbols))
    yield "keys from −1,000 to 10⁻¹² to 1,000 in a row", _all_sizes(rng, 3)
    keys, symbols = _all_sizes(rng, 12).args
    yield "float64 keys from −10¹² to 10⁻¹² to 10¹² in a row", Call((keys, symbols))


def _all_sizes(rng: np.random.Generator, most: int) -> Call:
    """Large and tiny keys of both signs; which of the tiny ones are chosen tells a text."""
    keys, symbols = _case(rng, 6, 13, 6, 1.0).args
    far = keys.double() - 6
    sizes = 10 ** torch.linspace(-12, most, 7, dtype=torch.float64)
    kind = torch.float32 if most < 6 else torch.float64
    return Call(((far.sign() * sizes[far.abs().long()]).to(kind), symbols))


def _edges(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    yield "one symbol", _case(rng, 2, 5, 1)
    for size in (1e5, 1e12):
        keys, symbols = torch.tensor([[3 * size, 1.0, 9 * size]]), torch.tensor([[7, 4, 5]])
        yield "large keys, and a symbol for each place", Call((keys, symbols))
    yield "as many symbols as places: no noise", _case(rng, 2, 4, 4)
    yield "one place", _case(rng, 3, 1, 1)


def _whole(subject: Subject, probe: Probe) -> None:
    """What is right is also whole: an embedding and a loss take no floats."""
    EDGES.test(subject, probe)
    args = _case(probe.rng, 2, 5, 3).args
    for name, part in zip(probe.results, probe.agree(subject, *args).value, strict=True):
        if part.is_floating_point():
            text = f"wrong type: {name} has dtype {part.dtype}, expected whole numbers."
            raise probe.miss(f"{text} An embedding takes no floats.", *args)


EDGES = agrees("one symbol, no noise, one place; whole numbers", _edges, repeat=1)


def draws(rng: np.random.Generator) -> list[Call]:
    """Few symbols, many symbols, all places taken, one example."""
    others = ((2, 9, 4, 0.7, -5.0), (1, 8, 5, 30.0, 2.0), (2, 7, 3, 0.7, 1.5))
    sizes = ((3, 9, 4), (2, 7, 3), (2, 4, 4), (1, 12, 2))
    calls = [_case(rng, *each) for each in sizes]
    return calls + [_case(rng, *each) for each in others]


def wide(rng: np.random.Generator) -> list[Call]:
    """Long texts and many symbols: a place needs more than one byte, a symbol more than two."""
    keys, symbols, *rest = _case(rng, 2, 9, 4).args
    many = Call((keys, symbols + 40_000, *rest))
    return [_case(rng, 2, 300, 5), _case(rng, 1, 300, 299, 0.7, -5.0), many]


CHOICE = "keys.argsort(dim=1)[:, :asked]"

SLIPS = (
    Slip(
        "the largest keys",
        ("keys.argsort(dim=1)", "keys.argsort(dim=1, descending=True)"),
        "The symbols stand where the M largest keys are. They belong to the M smallest.",
    ),
    Slip(
        "the first places",
        (CHOICE, "torch.arange(asked).expand_as(symbols)"),
        "The symbols stand at the beginning, one after the other. Then a model needs to know only "
        "when they come, not to select them. The keys should say where.",
    ),
    Slip(
        "symbols in the order of the keys",
        (".sort(dim=1).values", ""),
        "The places are right, but the symbols are dealt to them in the order of the keys. The "
        "first symbol must stand at the earliest place: sort the places.",
    ),
    Slip(
        "the same places for all examples",
        (CHOICE, "keys[:1].argsort(dim=1)[:, :asked].expand_as(symbols)"),
        "All examples have their symbols at the places of the first. Each has keys of its own.",
    ),
    Slip(
        "targets one step later",
        (
            "torch.cat([symbols.new_full(keys.shape, IGNORED), symbols], dim=1)",
            "torch.cat([symbols.new_full(keys.shape, IGNORED), symbols], dim=1).roll(1, 1)",
        ),
        "The targets lie one place too late; the last one stands at the first place. The target "
        "of the first READ should be the first symbol, at the same place as that READ.",
    ),
    Slip(
        "targets at the symbols",
        (
            "torch.cat([symbols.new_full(keys.shape, IGNORED), symbols], dim=1)",
            "torch.where(tokens > READ, tokens, torch.full_like(tokens, IGNORED))",
        ),
        "The targets stand where the symbols stand, so nothing has to be remembered. They should "
        "stand at the READ tokens at the end.",
    ),
    Slip(
        "noise is asked for too",
        ("symbols.new_full(keys.shape, IGNORED)", "symbols.new_full(keys.shape, NOISE)"),
        "The targets of the first T places are NOISE, so the loss counts these places too. They "
        "should be IGNORED, which cross_entropy leaves out.",
    ),
    Slip(
        "no questions",
        ("torch.full_like(symbols, READ)", "torch.full_like(symbols, NOISE)"),
        "At the end stands NOISE, where M tokens READ should ask for the symbols.",
    ),
    Slip(
        "targets one step early",
        (
            "torch.cat([symbols.new_full(keys.shape, IGNORED), symbols], dim=1)",
            "torch.cat([symbols.new_full(keys.shape, IGNORED), symbols], dim=1).roll(-1, 1)",
        ),
        "The targets lie one place too early. The target of the first READ should be the first "
        "symbol, at the same place as that READ.",
    ),
    Slip(
        "the answers in the text",
        ("torch.full_like(symbols, READ)", "symbols"),
        "The symbols stand at the end of the tokens too, where a model could read them off. READ "
        "should stand there; the symbols are the targets.",
    ),
)


def by_rows(keys: Tensor, symbols: Tensor) -> tuple[Tensor, Tensor]:
    """Example by example, with Python's sort."""
    tokens, targets = [], []
    for key, row in zip(keys.tolist(), symbols.tolist(), strict=True):
        places = sorted(sorted(range(len(key)), key=key.__getitem__)[: len(row)])
        noise = [0] * len(key)
        for place, symbol in zip(places, row, strict=True):
            noise[place] = symbol
        tokens.append(noise + [1] * len(row))
        targets.append([-100] * len(key) + row)
    return torch.tensor(tokens), torch.tensor(targets)


def by_counting(keys: Tensor, symbols: Tensor) -> tuple[Tensor, Tensor]:
    """A place is chosen where fewer than M keys are smaller; its symbol by counting from the
    left."""
    asked = symbols.shape[1]
    chosen = (keys[:, None, :] < keys[:, :, None]).sum(-1) < asked
    number = (chosen.cumsum(1) - 1).clamp(min=0)
    tokens = torch.where(chosen, symbols.gather(1, number), 0)
    ask = torch.ones_like(symbols)
    ignored = torch.full(keys.shape, -100)
    return torch.cat([tokens, ask], 1), torch.cat([ignored, symbols], 1)


EXERCISE = Exercise(
    chapter="24_mamba",
    title="Selective copying",
    goal="Make texts in which a few symbols stand anywhere in noise and are asked for at the end.",
    reference=mamba.selective_copy_data,
    contract=Contract(
        views=True,
        arguments_unchanged=True,
        says=(
            "Keys may have any sign and size, and be float64.",
            "The same keys and symbols always give the same result.",
        ),
    ),
    properties=(
        worked(
            "the worked example: keys 0.8 0.1 0.5 0.9 0.3, symbols 7 4",
            torch.tensor([[0.8, 0.1, 0.5, 0.9, 0.3]]),
            torch.tensor([[7, 4]]),
            want=(
                torch.tensor([[0, 7, 0, 0, 4, 1, 1]]),
                torch.tensor([[-100, -100, -100, -100, -100, 7, 4]]),
            ),
        ),
        agrees("tokens", _usual, part=0),
        agrees("targets", _usual, part=1),
        Property(EDGES.name, 1, _whole, fresh=True),
    ),
    draws=draws,
    wide=wide,
    slips=SLIPS,
    alternatives={"row by row": by_rows, "by counting smaller keys": by_counting},
    hints=(
        "Which places does the worked example choose, and in which order do the symbols go there?",
        "`keys.argsort(dim=1)` lists places from the smallest key to the largest. You want the "
        "first M of them, in the order in which they stand in the text.",
        "Sort the M chosen places, then `zeros.scatter(1, places, symbols)` puts one symbol at "
        "each. Append M times READ. Targets: T times IGNORED, then the symbols.",
    ),
    minutes=12,
    difficulty=2,
    importance=3,
    results=("tokens", "targets"),
)
