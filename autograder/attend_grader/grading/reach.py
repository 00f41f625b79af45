"""Code that reaches for what runs it: a pointer for the instructor, never a verdict.

Verdicts are made in another process, and no code gains values it has not worked out. But what a
call did besides (arguments changed in place, steps and memory) is seen from inside the process
that runs it, and could be hidden there; so whoever touches these parts is named.
"""

from __future__ import annotations

import re

from nbformat import NotebookNode

_OURS = r"(?:(?!check\b|hint\b|ready\b|share\b|solution\b)\w+)"
_SIGNS = (
    (rf"\battend_grader\s*\.\s*({_OURS})", "attend_grader.{}"),
    (rf"\bfrom\s+attend_grader\s+import\s[^\n;#]{{0,999}}?\b({_OURS})", "attend_grader.{}"),
    (r"\bsys\s*\.\s*(_getframe|modules|setprofile|settrace)\b", "sys.{}"),
    (r"\bfrom\s+sys\s+import\s[^\n]{0,999}?\b(_getframe|modules|setprofile|settrace)\b", "sys.{}"),
    (r"\b(tracemalloc)\b", "{}"),
    (r"\bgc\s*\.\s*(get_objects|get_referrers|get_referents)\b", "gc.{}"),
    (r"\b(tb_frame|gi_frame|cr_frame|f_back|f_globals|f_locals|meta_path)\b", "{}"),
    (r"\.\s*(__code__|__globals__)\b", "{}"),
    (r"\b(_disable_torch\w{0,40}|DisableTorch\w{0,40}|_pop_mode|inference_mode)\b", "{}"),
    (r"\binspect\s*\.\s*(currentframe|stack)\b", "inspect.{}"),
    (r"\b(ast_transformers|input_transformers_cleanup|input_transformers_post)\b", "{}"),
    (r"^[ \t]*(?:import|from)\s[^\n#]{0,999}?\b(ctypes)\b", "{}"),
)
"""Each looks a bounded way ahead: a text may be 2 MB of what almost fits."""

MOST = 2_000_000
"""Characters of code that are searched; nobody writes as many."""

_HIDDEN = r"(?<![\w.])(eval|exec|__import__)\s*\(|\b(importlib|builtins)\b"
"""Ways to call what no reading of the code finds."""


def reached(notebook: NotebookNode) -> list[str]:
    """Flags: code names parts of Python or of the grader that run it, or hides what it calls."""
    text = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
    long = len(text) > MOST
    text = text[:MOST].replace("\r", "\n")  # Python's ends of lines, but not those of patterns
    names = sorted(
        {
            label.format(found)
            for pattern, label in _SIGNS
            for found in re.findall(pattern, text, re.MULTILINE)
        }
    )
    flags = []
    if names:
        shown = ", ".join(names[:6])
        flags.append(f"The code reaches into the grader's side of its process ({shown}).")
    hidden = sorted({one or other for one, other in re.findall(_HIDDEN, re.sub(r"#.*", "", text))})
    if hidden:
        flags.append(
            f"The code uses {', '.join(hidden)}: functions that are not allowed could be behind it."
        )
    if long:
        flags.append(f"The code has over {MOST:,} characters; the rest was not searched.")
    return flags
