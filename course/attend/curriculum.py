"""The course's plan: its parts and chapters, in order; the one place that names them.

What a chapter asks (exercises, points, minutes) is in ``attend_grader``; whether it is ready shows
in the course folder: it is when its learner's notebook is there.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
"""The clone this package is installed from (the install is editable)."""


@dataclass(frozen=True)
class PlannedChapter:
    """One chapter: ``id`` is its folder's name, ``question`` what it answers."""

    id: str
    part: str
    question: str

    @property
    def number(self) -> str:
        """``"03"``."""
        return self.id[:2]

    @property
    def title(self) -> str:
        """``"Self attention"``: the id in words, a stopgap until the chapter has its own title."""
        return self.id[3:].replace("_", " ").capitalize()

    def notebook(self, root: Path = ROOT) -> Path:
        """Where its learner's notebook is, once the chapter is ready."""
        return root / "course" / self.id / f"{self.id}.ipynb"

    def is_ready(self, root: Path = ROOT) -> bool:
        """Tell whether learners can open it."""
        return self.notebook(root).is_file()


_PARTS = {
    "Attention": {
        "01_recurrence": "What did sequence models do before attention?",
        "02_alignment": "How did a decoder learn to look back?",
        "03_attention": "What is scaled dot-product attention, and why √d_k?",
        "04_self_attention": "Who may look at whom?",
        "05_multi_head": "Why many heads, and how few keys and values suffice?",
        "06_positions": "How does the model know where it is?",
    },
    "Transformers": {
        "07_block": "What surrounds attention, and why?",
        "08_architectures": "Encoder, decoder, both?",
        "09_training": "What makes it train?",
        "10_generation": "How does it write, and what does each token cost?",
        "11_interpretability": "What may attention weights tell us?",
        "12_beyond_text": "What else is a sequence?",
    },
    "The price of N²": {
        "13_cost": "What does attention cost, in FLOPs, bytes and joules?",
        "14_sparse": "Which pairs can we skip?",
        "15_linear_attention": "What if softmax went away?",
        "16_flash": "How does exact attention avoid the N² matrix?",
    },
    "GPU kernels": {
        "17_triton": "How does one write a kernel?",
        "18_triton_flash": "How is a FlashAttention forward pass written?",
        "19_triton_flash_backward": "And its gradient?",
        "20_decoding": "One query, a long cache: what then?",
        "21_long_context": "How does one attend to a million tokens?",
    },
    "State spaces to Mamba": {
        "22_gated_recurrence": "What does linear attention gain from forgetting?",
        "23_state_spaces": "How does an ODE become a convolution?",
        "24_mamba": "What if the input chose what to remember?",
        "25_mamba_kernels": "How is it made fast, and what is it dual to?",
        "26_hybrids": "Which mixer, when?",
        "27_consequences": "What do we owe the people it meets?",
    },
}

CHAPTERS: tuple[PlannedChapter, ...] = tuple(
    PlannedChapter(id, part, question)
    for part, chapters in _PARTS.items()
    for id, question in chapters.items()
)
"""All twenty-seven, in order."""
