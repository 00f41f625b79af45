"""Entry point of ``python -m attend_kernels.bench``."""

from attend_kernels.bench.cli import main

raise SystemExit(main())
