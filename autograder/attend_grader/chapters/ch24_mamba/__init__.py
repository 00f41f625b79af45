"""Chapter 24, Mamba: its exercises in order with their points; imports nothing heavy."""

EXERCISES = {
    "selective_copy_data": 6,
    "selective_parameters": 7,
    "discretize_selective": 6,
    "selective_scan": 8,
    "raw_scan": 7,
    "associative_scan": 9,
    "causal_conv1d": 7,
    "MambaBlock": 8,
    "mamba_step": 8,
}

READY_MADE = ("torch.ops", "attend_kernels", "transformers", "mamba_ssm")
"""Finished scans and blocks."""
