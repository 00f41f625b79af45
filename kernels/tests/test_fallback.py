"""Where no kernel can run: the twin, one warning, and a graph that stays whole all the same."""

from __future__ import annotations

import os
import subprocess
import sys


def test_torch_compile_keeps_the_twins_graph_whole_and_warns_once():
    program = """
import os, warnings, torch
from attend_kernels import cross_entropy, naive_cross_entropy
os.environ.pop("TRITON_INTERPRET", None)
torch.cuda.is_available = lambda: False
logits, targets = torch.randn(3, 5, requires_grad=True), torch.tensor([0, 1, 2])
compiled = torch.compile(cross_entropy, fullgraph=True, backend="aot_eager")
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for _ in range(2):
        torch.testing.assert_close(compiled(logits, targets), naive_cross_entropy(logits, targets))
print(*(str(w.message) for w in caught), sep="\\n")
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ))
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1, done.stdout
    assert done.stdout.startswith("cross_entropy: no NVIDIA GPU is available here, so its PyTorch")
