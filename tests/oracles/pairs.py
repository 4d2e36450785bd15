"""The released code's truncation of a pair, a token at a time, and its chunking with our corrections."""


def truncated_lengths(first: int, second: int, longest: int) -> tuple[int, int]:
    """Drop one token of the longer at a time; of equals the second."""
    while first + second > longest:
        if first > second:
            first -= 1
        else:
            second -= 1
    return first, second


def chunk_end(lengths: list[int], target: int) -> int:
    """How many of a document's remaining sentences the next chunk takes."""
    total = taken = 0
    for length in lengths:
        total, taken = total + length, taken + 1
        if total >= target and taken >= 2:
            break
    return len(lengths) if len(lengths) - taken == 1 else taken
