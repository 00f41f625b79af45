"""Chapter 05's widgets: they draw what the learner's own module or function returns."""

from __future__ import annotations

import ipywidgets
import numpy as np
import pytest
import torch
from attend.data.published_models import MODELS
from attend.data.two_relations import two_relations
from attend.widgets import View, head_explorer, kv_cache_calculator
from attend.widgets.heads import HeadsState
from attend.widgets.heads import draw as draw_heads
from attend.widgets.kv_cache import CacheState, amount, variants
from attend.widgets.kv_cache import draw as draw_cache
from attend_solutions.multi_head import MultiHeadAttention, kv_cache_bytes

from .pictures import SVG, assert_shows_itself, controls, panels


def explorer(module=None, **more) -> View:
    torch.manual_seed(0)
    data = two_relations(0, 3)
    module = MultiHeadAttention(48, 4) if module is None else module
    return head_explorer(module, data.x, [data.row(n) for n in range(3)], **more)


def test_each_widget_shows_itself_with_and_without_a_kernel():
    assert_shows_itself(explorer(), "arcs", "heads", "matrix")
    assert_shows_itself(kv_cache_calculator(kv_cache_bytes), "models", "variants")


# --- head explorer


def test_arcs_are_the_modules_own_weights():
    torch.manual_seed(0)
    data, module = two_relations(0, 3), MultiHeadAttention(48, 4)
    view = head_explorer(module, data.x, [data.row(n) for n in range(3)])
    example, (query, head) = (
        *controls(view, ipywidgets.Dropdown),
        controls(view, ipywidgets.IntSlider),
    )
    example.value, query.value, head.value = 2, 5, 3
    _, weights = module(data.x[2:])
    row = weights[0, 2, 4].detach().numpy()
    arcs = panels(view.static())["arcs"]
    paths = [p for p in arcs.iter(f"{SVG}path") if p.get("data-head") == "3"]
    assert len(paths) == (row >= 0.02).sum()
    assert {p.get("data-weight") for p in paths} == {f"{w:.4f}" for w in row if w >= 0.02}
    label = arcs.get("aria-label", "")
    assert f"In head 3, {data.row(2)[4]} gives its largest weight, {row.max():.2f}" in label
    assert data.row(2)[row.argmax()] in label


def test_marks_say_where_to_look_and_heads_are_told_apart():
    data = two_relations(0, 3)
    view = explorer(marks={"friend": data.places[..., 0]})
    words = [node.text for node in panels(view.static())["arcs"].iter(f"{SVG}text")]
    assert "▲ friend" in words
    assert {"1", "2", "3", "4"} <= set(words)
    paths = list(panels(view.static())["arcs"].iter(f"{SVG}path"))
    assert len({(p.get("stroke"), p.get("stroke-dasharray")) for p in paths}) == 4


def test_sixteen_heads_look_different():
    data, module = two_relations(0, 1), MultiHeadAttention(48, 16)
    html = head_explorer(module, data.x, [data.row(0)]).static()
    lines = list(panels(html)["arcs"].iter(f"{SVG}line"))
    assert len({(p.get("stroke"), p.get("stroke-dasharray")) for p in lines}) == 16


def test_a_head_that_is_gone_is_not_asked_for():
    weights = np.full((2, 3, 3), 1 / 3)
    html = draw_heads(HeadsState(head=7), list("abc"), weights)
    assert "In head 2" in html


class NotStarted(torch.nn.Module):
    def forward(self, x):
        raise NotImplementedError


class Crashes(torch.nn.Module):
    def forward(self, x):
        raise RuntimeError("shapes do not fit")


class OutputOnly(torch.nn.Module):
    def forward(self, x):
        return x


class Averaged(torch.nn.Module):
    def forward(self, x):
        return x, torch.ones(len(x), 12, 12) / 12


class Infinite(torch.nn.Module):
    def forward(self, x):
        return x, torch.full((len(x), 2, 12, 12), torch.nan)


class Scores(torch.nn.Module):
    def forward(self, x):
        return x, torch.full((len(x), 2, 12, 12), 7.0)


class Greedy(MultiHeadAttention):
    def forward(self, x, mask=None):
        result = super().forward(x, mask)
        x.zero_()
        return result


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (NotStarted(), "waits for the exercise MultiHeadAttention"),
        (Crashes(), "stopped with RuntimeError: shapes do not fit"),
        (OutputOnly(), "the weights have no shape"),
        (Averaged(), "the weights have shape (1, 12, 12)"),
        (Infinite(), "NaN or infinity"),
        (Scores(), "outside 0 … 1"),
        (MultiHeadAttention(48, 24), "24 heads are more than the 16"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_wrong_module_gets_one_sentence(module, message):
    html = explorer(module).static()
    assert message in html
    assert "Traceback" not in html
    assert panels(html) == {}


def test_a_module_that_changes_its_input_does_no_harm():
    torch.manual_seed(0)
    honest = MultiHeadAttention(48, 4)
    greedy = Greedy(48, 4)
    greedy.load_state_dict(honest.state_dict())
    assert explorer(greedy).static() == explorer(honest).static()


@pytest.mark.parametrize(
    ("arguments", "more", "message"),
    [
        ((3, torch.zeros(1, 2, 4), [["a", "b"]]), {}, "must be your module"),
        ((Averaged(), np.zeros((1, 2, 4)), [["a", "b"]]), {}, "must be a tensor"),
        ((Averaged(), torch.zeros(2, 4), [["a", "b"]]), {}, r"\(N, T, C\)"),
        ((Averaged(), torch.zeros(1, 3, 4), [["a", "b"]]), {}, "1 lists of 3 tokens"),
        ((Averaged(), torch.zeros(1, 40, 4), [["a"] * 40]), {}, "too many"),
        (
            (Averaged(), torch.zeros(1, 2, 4), [["a", "b"]]),
            {"marks": {"m": [1]}},
            r"must have shape \(1, 2\)",
        ),
    ],
    ids=["module", "array", "axes", "tokens", "many", "marks"],
)
def test_explorer_refuses_bad_input(arguments, more, message):
    with pytest.raises(ValueError, match=message):
        head_explorer(*arguments, **more)


# --- KV cache calculator


def dots(html: str, panel: str) -> list[int]:
    return [int(c.get("data-bytes", -1)) for c in panels(html)[panel].iter(f"{SVG}circle")]


def test_every_dot_is_what_the_function_returns():
    html = draw_cache(CacheState("Llama 2 7B", 4096, 2, 8), kv_cache_bytes)
    assert dots(html, "models") == [
        kv_cache_bytes(
            4096,
            m.layers,
            m.kv_heads,
            m.head_dim,
            batch=2,
            bits=8,
            latent=m.latent,
            window=m.window,
        )
        for m in MODELS.values()
    ]
    assert "Llama 2 7B keeps 2 GiB: 4,096 tokens, 32 layers, 2 · 32 kv_heads" in html


def test_published_sizes():
    """Half a MiB a token for Llama 2 7B; 2.25 heads for DeepSeek-V2 (its authors, §2.1.4)."""
    llama, deep = MODELS["Llama 2 7B"], MODELS["DeepSeek-V2"]
    assert kv_cache_bytes(1, llama.layers, llama.kv_heads, llama.head_dim) == 2**19
    one = kv_cache_bytes(1, deep.layers, 1, deep.head_dim)
    assert kv_cache_bytes(1, deep.layers, 1, 1, latent=deep.latent) == 2.25 * one
    assert {m.kind for m in MODELS.values()} == {"MHA", "GQA", "MQA", "MLA"}
    assert all(m.source for m in MODELS.values())
    assert all(m.heads % m.kv_heads == 0 for m in MODELS.values())


@pytest.mark.parametrize("name", MODELS)
def test_variants_hold_the_model_as_published(name):
    model = MODELS[name]
    made = variants(model)
    assert model in made.values()
    html = draw_cache(CacheState(name), kv_cache_bytes)
    assert "▶" in "".join(t.text or "" for t in panels(html)["variants"].iter(f"{SVG}text"))
    mha = kv_cache_bytes(4096, model.layers, model.heads, model.head_dim, window=model.window)
    assert max(dots(html, "variants")) == mha


def test_controls_move_the_dots():
    view = kv_cache_calculator(kv_cache_bytes)
    first = view.static()
    model, bits = controls(view, ipywidgets.Dropdown)
    tokens, sentences = controls(view, ipywidgets.SelectionSlider)
    model.value, tokens.value, sentences.value, bits.value = "Mistral 7B", 131072, 4, 4
    state = CacheState("Mistral 7B", 131072, 4, 4)
    assert draw_cache(state, kv_cache_bytes) in view.static()
    assert view.static() != first
    assert "4,096 tokens (its window)" in view.static()


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda *a, **k: (_ for _ in ()).throw(NotImplementedError()), "waits for the exercise"),
        (lambda *a: 1, "stopped with TypeError"),
        (lambda *a, **k: None, "it returned None"),
        (lambda *a, **k: -1, "it returned -1"),
        (lambda *a, **k: float("nan"), "it returned nan"),
        (lambda *a, **k: True, "it returned True"),
    ],
    ids=["not started", "arguments", "nothing", "negative", "nan", "bool"],
)
def test_a_wrong_function_gets_one_sentence(function, message):
    html = kv_cache_calculator(function).static()
    assert message in html
    assert panels(html) == {}


def test_no_line_crosses_what_a_dot_is_labelled_with():
    """The limit of the device and the grid lie behind a ground as wide as the words."""
    for tokens in (4096, 65536):
        panel = panels(draw_cache(CacheState(tokens=tokens), kv_cache_bytes))["models"]
        parts = list(panel)
        for place, node in enumerate(parts):
            if node.tag == f"{SVG}text" and (node.text or "").split(" · ")[0].endswith("iB"):
                if node.get("text-anchor"):  # the axis
                    continue
                ground = parts[place - 1]
                assert ground.tag == f"{SVG}rect"
                assert float(ground.get("width", 0)) > 7 * len(node.text or "")
                assert not any(
                    later.tag == f"{SVG}line" and later.get("x1") == later.get("x2")
                    for later in parts[place:]
                )


def test_zero_and_huge_counts_are_drawn():
    for count in (0, 10**18):
        html = kv_cache_calculator(lambda *a, n=count, **k: n).static()
        assert "nan" not in html
        assert set(dots(html, "models")) == {count}


def test_the_calculator_wants_a_function():
    with pytest.raises(ValueError, match="without parentheses"):
        kv_cache_calculator(17)  # type: ignore[arg-type]  # what is refused


def test_amounts_read_well():
    given = (0, 512, 2**10, 69120, 2**31, 1.5 * 2**40, 2**50)
    wanted = ["0 bytes", "512 bytes", "1 KiB", "67.5 KiB", "2 GiB", "1.5 TiB", "1,024 TiB"]
    assert [amount(n) for n in given] == wanted
