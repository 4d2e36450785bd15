"""Token store -> pretraining examples: pure functions of where and when.  No torch here."""
