"""Templates of `basics` about what follows what."""

from __future__ import annotations

from reflexion_lab.benchmarks.basics_template import Template, numbers

SEQUENCES = (
    Template(
        "easy",
        ("count_from", "numbers_between", "counting_list"),
        "(n: int) -> list[int]",
        "Return the list of the numbers from {k} to n, both included.",
        "return list(range({k}, n + 1))",
        lambda r, k: (k + r.randint(0, 9),),
        range(1, 8),
    ),
    Template(
        "easy",
        ("copies", "repeated_number", "fill_list"),
        "(n: int) -> list[int]",
        "Return a list that holds the number {k} n times.",
        "return [{k}] * n",
        lambda r, k: (r.randint(0, 9),),
        range(2, 10),
    ),
    Template(
        "easy",
        ("squares_up_to", "list_squares", "square_list"),
        "(n: int) -> list[int]",
        "Return the list of the squares of the numbers from 1 to n.",
        "return [i * i for i in range(1, n + 1)]",
        lambda r, k: (r.randint(1, 12),),
    ),
    Template(
        "easy",
        ("every_other", "skip_through", "items_in_steps"),
        "(items: list[int]) -> list[int]",
        "Return every {k}th item of the list, starting with the first.",
        "return items[::{k}]",
        lambda r, k: (numbers(r, 1, 30, fewest=k + 1, most=9),),
        range(2, 6),
    ),
    Template(
        "medium",
        ("steps_between", "differences", "changes"),
        "(numbers: list[int]) -> list[int]",
        "Return the list of the differences between each number and the one before it.",
        "return [b - a for a, b in zip(numbers, numbers[1:])]",
        lambda r, k: (numbers(r, 1, 20, fewest=2),),
        slip="return [a - b for a, b in zip(numbers, numbers[1:])]",
    ),
    Template(
        "medium",
        ("running_total", "sums_so_far", "partial_sums"),
        "(numbers: list[int]) -> list[int]",
        "Return the list of the sums of the numbers so far, starting from {k}.",
        """
        total = {k}
        totals = []
        for n in numbers:
            total += n
            totals.append(total)
        return totals
        """,
        lambda r, k: (numbers(r, 1, 12, fewest=1, most=5),),
        (0, 1, 5, 10, 20, 100),
        slip="return [{k} + n for n in numbers]",
    ),
    Template(
        "medium",
        ("steps_up", "sequence_with_step", "arithmetic_list"),
        "(n: int) -> list[int]",
        "Return a list of n numbers that begins with {k[0]}, where each is larger by {k[1]} than the one before.",
        "return [{k[0]} + i * {k[1]} for i in range(n)]",
        lambda r, k: (r.randint(0, 9),),
        ((1, 3), (2, 5), (5, 2), (10, 4), (3, 7), (4, 6)),
        slip="return list(range({k[0]}, n, {k[1]}))",
    ),
    Template(
        "medium",
        ("is_increasing", "always_grows", "keeps_growing"),
        "(numbers: list[int]) -> bool",
        "Return True if each number is larger than the one before it, else False.",
        "return all(a < b for a, b in zip(numbers, numbers[1:]))",
        lambda r, k: (sorted(numbers(r, 1, 15, most=4)) if r.random() < 0.7 else numbers(r, 1, 9, most=4),),
        slip="return numbers == sorted(numbers)",
    ),
    Template(
        "medium",
        ("powers_below", "multiply_until", "growing_by_factor"),
        "(n: int) -> list[int]",
        "Return the list of 1, {k}, {k} * {k} and so on, as long as the numbers are less than n.",
        """
        powers = []
        power = 1
        while power < n:
            powers.append(power)
            power *= {k}
        return powers
        """,
        lambda r, k: (r.choice((k ** r.randint(0, 4), k ** r.randint(1, 4) + r.randint(-1, 1), r.randint(1, 90))),),
        range(2, 6),
        slip="return list(range(1, n, {k}))",
    ),
    Template(
        "medium",
        ("odd_places", "items_at_odd_places", "second_of_each_two"),
        "(items: list[int]) -> list[int]",
        "Return the items at index {k}, at index {k} + 2, at index {k} + 4 and so on.",
        "return items[{k}::2]",
        lambda r, k: (numbers(r, 1, 30, fewest=k + 1, most=9),),
        range(1, 5),
        slip="return items[{k}:]",
    ),
    Template(
        "hard",
        ("sum_of_last_two", "grow_by_adding", "additive_sequence"),
        "(n: int) -> list[int]",
        "Return the first n numbers of the sequence {k[0]}, {k[1]}, ... where each is the sum of the two before it.",
        """
        a, b = {k[0]}, {k[1]}
        sequence = []
        for _ in range(n):
            sequence.append(a)
            a, b = b, a + b
        return sequence
        """,
        lambda r, k: (r.randint(0, 11),),
        ((2, 5), (1, 4), (3, 2), (4, 7), (2, 3), (5, 1)),
        slip="return [{k[0]} + i * ({k[1]} - {k[0]}) for i in range(n)]",
    ),
    Template(
        "hard",
        ("longest_run", "most_in_a_row", "longest_repeat"),
        "(numbers: list[int]) -> int",
        "Return the length of the longest run of {k} in the list, or 0 if {k} is not in it.",
        """
        longest = run = 0
        for n in numbers:
            run = run + 1 if n == {k} else 0
            longest = max(longest, run)
        return longest
        """,
        lambda r, k: ([r.choice((k, k, k + r.choice((-1, 1)))) for _ in range(r.randint(3, 8))],),
        range(1, 8),
        slip="return numbers.count({k})",
    ),
    Template(
        "hard",
        ("count_peaks", "number_of_peaks", "high_points"),
        "(numbers: list[int]) -> int",
        "Return how many numbers are larger than both the number before and the number after them.",
        "return sum(a < b > c for a, b, c in zip(numbers, numbers[1:], numbers[2:]))",
        lambda r, k: (numbers(r, 1, 6, fewest=3, most=8),),
        slip="return sum(a < b for a, b in zip(numbers, numbers[1:]))",
    ),
    Template(
        "hard",
        ("first_repeated", "earliest_repeat", "seen_before"),
        "(numbers: list[int]) -> int",
        "Return the first number that has already occurred earlier in the list, or {k} if there is none.",
        """
        seen = []
        for n in numbers:
            if n in seen:
                return n
            seen.append(n)
        return {k}
        """,
        lambda r, k: (numbers(r, 1, r.choice((3, 9)), fewest=3, most=6),),
        (-1, 0, 99),
        slip="return next((n for n in numbers if numbers.count(n) > 1), {k})",
    ),
    Template(
        "hard",
        ("steps_to_one", "reach_one", "steps_until_one"),
        "(n: int) -> int",
        "Return how many steps lead from n to 1, where a step halves an even number and adds {k} to an odd one.",
        """
        steps = 0
        while n > 1:
            n = n // 2 if n % 2 == 0 else n + {k}
            steps += 1
        return steps
        """,
        lambda r, k: (r.randint(1, 60),),
        (1, -1),
        slip="return n // 2",
    ),
    Template(
        "hard",
        ("take_turns", "interleave", "alternate_items"),
        "(first: list[int], second: list[int]) -> list[int]",
        "Return a list that takes a number from first and from second in turn; both are equally long.",
        "return [n for pair in zip(first, second) for n in pair]",
        lambda r, k: tuple([numbers(r, 1, 30, fewest=size, most=size) for size in [r.randint(1, 4)] for _ in "ab"]),
        slip="return first + second",
    ),
)
