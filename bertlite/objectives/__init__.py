"""Model and batch -> losses."""
