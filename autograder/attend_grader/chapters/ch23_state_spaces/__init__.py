"""Chapter 23, state spaces: its exercises in order with their points; imports nothing heavy."""

EXERCISES = {
    "discretize": 8,
    "ssm_recurrent": 8,
    "hippo_legs": 4,
    "hippo_reconstruct": 6,
    "ssm_kernel": 6,
    "ssm_convolve": 9,
    "convolve_in_blocks": 8,
    "s4d_kernel": 7,
    "s4d_init": 6,
    "dplr_kernel": 7,
}
