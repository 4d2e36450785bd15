"""Slow plain-Python truths."""
