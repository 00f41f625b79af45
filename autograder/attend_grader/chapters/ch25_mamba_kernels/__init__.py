"""Chapter 25, Mamba's kernels: its exercises in order with their points; imports nothing heavy."""

EXERCISES = {
    "segsum": 7,
    "ssd_quadratic": 7,
    "ssd_recurrent": 7,
    "ssd_chunked": 10,
    "best_chunk": 6,
    "Mamba2Block": 8,
    "triton_selective_scan": 9,
    "triton_chunk_state": 9,
    "triton_chunk_scan": 9,
}

READY_MADE = ("torch.ops", "attend_kernels", "transformers", "mamba_ssm")
"""Finished scans and blocks."""
