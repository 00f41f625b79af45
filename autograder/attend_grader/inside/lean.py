"""Import jsonschema without the grammar of IRIs that it would build: 0.9 s in each process.

Altair, nbformat and Jupyter's own commands bring jsonschema, and an optional package of its that
compiles 38 grammars as it is imported, for a format that neither charts nor notebooks use. To be
imported before them; what is imported afterwards finds that package as usual. The jail has it too,
as chapters' charts import it there.
"""

import sys

if "rfc3987_syntax" not in sys.modules:
    sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]  # "not installed"
    try:
        import jsonschema  # noqa: F401
    finally:
        del sys.modules["rfc3987_syntax"]
