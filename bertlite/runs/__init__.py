"""One file a verb: what a user calls, in Python and from the shell."""
