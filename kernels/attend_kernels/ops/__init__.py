"""A folder a family. None imports another: what two share is in ``attend_kernels.common``.

``api`` has the equation, the letters and the public functions, ``naive`` their twins, ``tiles`` the
tuned configurations, ``operators`` what PyTorch is told, the rest the kernels and their launchers.
"""
