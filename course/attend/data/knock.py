"""Four small networks that learned the copy task."""

from pathlib import Path

WEIGHTS = Path(__file__).with_name("knock.npz")
LAG = 30
NETWORKS = {
    "plain": "plain, as PyTorch starts it",
    "plain, orthogonal": "plain, orthogonal × 1.1",
    "GRU": "GRU, gate open",
    "LSTM": "LSTM, gate open",
}
