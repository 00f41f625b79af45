"""Known ways to get each exercise wrong, and other right ways to write it; a module a chapter."""
