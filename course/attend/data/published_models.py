"""What published language models keep of each token: layers, heads, and where it is written.

from attend.data.published_models import MODELS
MODELS["Llama 2 70B"].kv_heads      8
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PublishedModel:
    """The numbers of one model that the size of its cache depends on.

    Attributes:
        layers: L.
        heads: H, of queries.
        kv_heads: G, of keys and values.
        head_dim: D.
        source: paper and table or section.
        latent: numbers kept of a token in a layer in the place of keys and values, or None.
        window: how many of the last tokens are looked at, or None for all.
    """

    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    source: str
    latent: int | None = None
    window: int | None = None

    @property
    def kind(self) -> str:
        """MHA, GQA, MQA or MLA."""
        if self.latent is not None:
            return "MLA"
        return {self.heads: "MHA", 1: "MQA"}.get(self.kv_heads, "GQA")


_LLAMA_2 = "Touvron et al. 2023, Llama 2, appendix A.2.1; sizes as in LLaMA, table 2"
_LLAMA_3 = "Grattafiori et al. 2024, The Llama 3 Herd of Models, table 3"
_QWEN_2 = "Yang et al. 2024, Qwen2 Technical Report, table 1"

MODELS: dict[str, PublishedModel] = {
    "GPT-3 175B": PublishedModel(96, 96, 96, 128, "Brown et al. 2020, table 2.1"),
    "Llama 2 7B": PublishedModel(32, 32, 32, 128, _LLAMA_2),
    "Llama 2 70B": PublishedModel(80, 64, 8, 128, _LLAMA_2),
    "Llama 3 8B": PublishedModel(32, 32, 8, 128, _LLAMA_3),
    "Llama 3 405B": PublishedModel(126, 128, 8, 128, _LLAMA_3),
    "Qwen2 7B": PublishedModel(28, 28, 4, 128, _QWEN_2),
    "Mistral 7B": PublishedModel(
        32, 32, 8, 128, "Jiang et al. 2023, Mistral 7B, table 1", window=4096
    ),
    "Falcon 7B": PublishedModel(
        32, 71, 1, 64, "Almazrouei et al. 2023, The Falcon Series; model card"
    ),
    "DeepSeek-V2": PublishedModel(
        60, 128, 128, 128, "DeepSeek-AI 2024, DeepSeek-V2, §3.1.2", latent=512 + 64
    ),
}
"""By name, oldest first within a kind. DeepSeek-V2's latent: 512 numbers, and 64 of a key that
carries positions (chapter 06), shared by all heads."""
