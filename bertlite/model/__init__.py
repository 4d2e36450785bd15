"""Tensors -> tensors; knows no text."""
