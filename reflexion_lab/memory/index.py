"""Which of the numbered episodes share a key: what a buffer looks up."""

from __future__ import annotations

from bisect import bisect_left


class Index:
    """Numbers by key. They come in ascending order, and leave from the lowest on.

    Adding and dropping cost O(1) amortised, however many numbers a key has: dropped numbers stay in front of a key's
    list until they are half of it, and then leave it at once. A key without numbers is not kept. Not thread-safe.
    """

    def __init__(self) -> None:
        # A single number stands without a list: with a million keys of one number each, lists would be 80 MB.
        self._numbers: dict[str, int | list[int]] = {}

    def add(self, key: str, number: int) -> None:
        held = self._numbers.get(key)
        if held is None:
            self._numbers[key] = number
        elif isinstance(held, int):
            self._numbers[key] = [held, number]
        else:
            held.append(number)

    def drop(self, key: str, number: int) -> None:
        """`number` is the lowest of all numbers in the index, and `key` is its key."""
        held = self._numbers[key]
        if isinstance(held, int) or held[-1] == number:
            del self._numbers[key]
        elif held[middle := len(held) // 2] == number:
            del held[: middle + 1]

    def numbers(self, key: str, lowest: int) -> list[int]:
        """A new list of the key's numbers, ascending; `lowest` is the lowest that was not dropped."""
        held = self._numbers.get(key, [])
        return [held] if isinstance(held, int) else held[bisect_left(held, lowest) :]
