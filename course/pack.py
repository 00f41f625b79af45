"""Puts the learners' notebooks into a wheel, for those who install it and have no clone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Notebooks(BuildHookInterface):
    """A hook of hatchling's: an editable install finds the notebooks where they are."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add each chapter's notebook as ``attend/notebooks/NN_slug.ipynb``."""
        if version != "standard":
            return
        for path in sorted(Path(self.root, "course").glob("[0-9][0-9]_*/[0-9]*.ipynb")):
            if path.stem == path.parent.name:
                build_data["force_include"][str(path)] = f"attend/notebooks/{path.name}"
