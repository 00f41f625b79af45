"""``attend report``: one page on a class's assignment, with a CSV and a JSON file beside it."""

from attend.report.files import HEAD, main, near_identical, table, to_json

__all__ = ["HEAD", "main", "near_identical", "table", "to_json"]
