"""How many seeds the deep tests try: as `make test-all` has time for, or as many as ever wished."""

import os

EVERY_SEED = os.environ.get("ATTEND_EVERY_SEED") == "1"
"""Hours for all chapters; for the room one has changed: ``ATTEND_EVERY_SEED=1 pytest -k 03_``."""
