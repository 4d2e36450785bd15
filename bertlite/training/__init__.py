"""Losses -> weights: hardware, optimizer, schedule, the loop, checkpoints, log."""
