"""The course's plan: its parts and chapters, in order; the one place that names them.

What a chapter asks (exercises, points, minutes) is in ``attend_grader``; whether it is ready shows
in the course folder: it is when its learner's notebook is there.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
"""The clone this package is installed from, where the install is editable."""

PACKED = Path(__file__).with_name("notebooks")
"""The learners' notebooks in an installed wheel; a clone has them beside their sources."""

LAB = "attend lab" if PACKED.is_dir() else "make lab"
"""The command that opens the course here."""


@dataclass(frozen=True)
class PlannedChapter:
    """One chapter: ``id`` is its folder's name, ``question`` what it answers."""

    id: str
    part: str
    title: str
    question: str

    @property
    def number(self) -> str:
        """``"03"``."""
        return self.id[:2]

    def notebook(self, root: Path = ROOT) -> Path:
        """Where its learner's notebook is, once the chapter is ready."""
        if root == ROOT and PACKED.is_dir():
            return PACKED / f"{self.id}.ipynb"
        return root / "course" / self.id / f"{self.id}.ipynb"

    def is_ready(self, root: Path = ROOT) -> bool:
        """Tell whether learners can open it."""
        return self.notebook(root).is_file()


_PARTS = {
    "Attention": {
        "01_recurrence": ("Recurrence", "What did sequence models do before attention?"),
        "02_alignment": ("Alignment", "How did a decoder learn to look back?"),
        "03_attention": (
            "Scaled dot-product attention",
            "What is scaled dot-product attention, and why √d_k?",
        ),
        "04_self_attention": ("Self-attention and masks", "Who may look at whom?"),
        "05_multi_head": ("Many heads", "Why many heads, and how few keys and values suffice?"),
        "06_positions": ("Positions", "How does the model know where it is?"),
    },
    "Transformers": {
        "07_block": ("The block", "What surrounds attention, and why?"),
        "08_architectures": ("Architectures", "Encoder, decoder, both?"),
        "09_training": ("Training", "What makes it train?"),
        "10_generation": ("Generation", "How does it write, and what does each token cost?"),
        "11_interpretability": ("Interpretability", "What may attention weights tell us?"),
        "12_beyond_text": ("Beyond text", "What else is a sequence?"),
    },
    "The price of N²": {
        "13_cost": ("Cost", "What does attention cost, in FLOPs, bytes and joules?"),
        "14_sparse": ("Sparse attention", "Which pairs can we skip?"),
        "15_linear_attention": ("Linear attention", "What if softmax went away?"),
        "16_flash": ("Flash attention", "How does exact attention avoid the N² matrix?"),
    },
    "GPU kernels": {
        "17_triton": ("Triton", "How does one write a kernel?"),
        "18_triton_flash": (
            "FlashAttention in Triton",
            "How is a FlashAttention forward pass written?",
        ),
        "19_triton_flash_backward": (
            "FlashAttention backwards",
            "How do kernels make the gradient of attention?",
        ),
        "20_decoding": ("Decoding", "One query, a long cache: what then?"),
        "21_long_context": ("Long context", "How does one attend to a million tokens?"),
    },
    "State spaces to Mamba": {
        "22_gated_recurrence": (
            "Gated recurrence",
            "What does linear attention gain from forgetting?",
        ),
        "23_state_spaces": ("State spaces", "How does an ODE become a convolution?"),
        "24_mamba": ("Mamba", "What if the input chose what to remember?"),
        "25_mamba_kernels": ("Mamba kernels", "How is it made fast, and what is it dual to?"),
        "26_hybrids": ("Hybrids", "Which mixer, when?"),
        "27_consequences": ("Consequences", "What do we owe the people it meets?"),
    },
}

CHAPTERS: tuple[PlannedChapter, ...] = tuple(
    PlannedChapter(id, part, title, question)
    for part, chapters in _PARTS.items()
    for id, (title, question) in chapters.items()
)
"""All twenty-seven, in order."""


def title(chapter_id: str) -> str:
    """``03 · Scaled dot-product attention``; the id itself where it is not in the plan."""
    planned = next((chapter for chapter in CHAPTERS if chapter.id == chapter_id), None)
    return chapter_id if planned is None else f"{planned.number} · {planned.title}"
