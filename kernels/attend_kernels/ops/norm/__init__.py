"""RMSNorm and LayerNorm. Begin with ``api``."""
