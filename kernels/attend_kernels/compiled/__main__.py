"""The command: see the package."""

from __future__ import annotations

import argparse
import json
import sys

from attend_kernels.compiled import check, page


def main() -> None:
    """Compile what changed and write the page, or say what is out of date."""
    parser = argparse.ArgumentParser(
        prog="python -m attend_kernels.compiled",
        description="Compile what changed for GPUs that are not here, and write the page.",
    )
    parser.add_argument(
        "--check",
        metavar="FAMILY",
        nargs="*",
        help="only say what is out of date, of all families or of those named: JSON",
    )
    families = parser.parse_args().check
    if families is not None:
        json.dump(check.report(families or page.FAMILIES), sys.stdout, indent=1)
        return
    compiled, broken = check.update()
    print(f"compiled {compiled} that changed, wrote {page.RESULTS.name} and {page.PAGE.name}")
    if broken:
        sys.exit("\n".join(["", "Not as promised:", *broken]))


if __name__ == "__main__":
    main()
