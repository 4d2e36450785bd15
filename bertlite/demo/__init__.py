"""The demo: the corpus that ships (public domain), its labels, and the story that `bertlite demo` tells."""
