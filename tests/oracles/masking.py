"""Masking as the paper says it, a token at a time, with its draws given."""


def corrupt(ids: list[int], chosen: list[int], fate: list[float], random_ids: list[int], mask_id: int) -> list[int]:
    """80 % [MASK], 10 % random, 10 % kept."""
    result = list(ids)
    for position, u, random_id in zip(chosen, fate, random_ids, strict=True):
        if u < 0.8:
            result[position] = mask_id
        elif u < 0.9:
            result[position] = random_id
    return result
