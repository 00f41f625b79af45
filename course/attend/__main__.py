"""``python -m attend``: the same as the ``attend`` command."""

from attend.cli import app

app()
