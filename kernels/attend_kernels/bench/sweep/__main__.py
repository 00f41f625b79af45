"""The command: see the package."""

import sys

from attend_kernels.bench.sweep.cli import main

sys.exit(main())
