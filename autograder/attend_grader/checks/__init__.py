"""What chapters are written with: exercises, properties, comparisons, subjects."""
