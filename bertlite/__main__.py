"""`python -m bertlite`, which is what torchrun starts."""

from bertlite.cli import main

if __name__ == "__main__":
    main()
