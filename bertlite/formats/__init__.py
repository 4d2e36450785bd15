"""Other people's files, and nowhere else their names."""
