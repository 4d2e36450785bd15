"""bertlite."""
