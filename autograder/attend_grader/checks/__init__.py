"""What chapters are written with."""
