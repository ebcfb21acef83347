"""Templates of `basics` about lists of numbers."""

from __future__ import annotations

from reflexion_lab.benchmarks.basics_template import Template, numbers

LISTS = (
    Template(
        "easy",
        ("last_items", "list_end", "take_last"),
        "(items: list[int]) -> list[int]",
        "Return the last {k} elements of the list.",
        "return items[-{k}:]",
        lambda r, k: (numbers(r, 1, 20, fewest=k, most=8),),
        range(2, 6),
    ),
    Template(
        "easy",
        ("all_below", "every_number_under", "stays_below"),
        "(numbers: list[int]) -> bool",
        "Return True if all numbers in the list are less than {k}, else False.",
        "return all(n < {k} for n in numbers)",
        lambda r, k: (numbers(r, k - 6, k + r.randint(-2, 2)),),
        range(6, 31, 4),
    ),
    Template(
        "easy",
        ("scale_all", "multiply_each", "times_constant"),
        "(numbers: list[int]) -> list[int]",
        "Return the list with every number multiplied by {k}.",
        "return [n * {k} for n in numbers]",
        lambda r, k: (numbers(r, -5, 12),),
        range(2, 10),
    ),
    Template(
        "easy",
        ("spread", "value_range", "max_minus_min"),
        "(numbers: list[int]) -> int",
        "Return the difference between the largest and the smallest number in the list.",
        "return max(numbers) - min(numbers)",
        lambda r, k: (numbers(r, -10, 30, fewest=1),),
    ),
    Template(
        "easy",
        ("sort_descending", "largest_first", "order_downwards"),
        "(numbers: list[int]) -> list[int]",
        "Return the list sorted in descending order.",
        "return sorted(numbers, reverse=True)",
        lambda r, k: (numbers(r, -10, 30),),
    ),
    Template(
        "medium",
        ("sum_even", "add_evens", "even_total"),
        "(numbers: list[int]) -> int",
        "Return the sum of the even numbers in the list.",
        "return sum(n for n in numbers if n % 2 == 0)",
        lambda r, k: (numbers(r, 1, 20),),
        slip="return sum(numbers[::2])",
    ),
    Template(
        "medium",
        ("count_above", "how_many_above", "count_greater"),
        "(numbers: list[int]) -> int",
        "Return how many numbers in the list are greater than {k}.",
        "return sum(n > {k} for n in numbers)",
        lambda r, k: (numbers(r, k - 5, k + 5),),
        range(6, 31, 4),
        slip="return sum(n >= {k} for n in numbers)",
    ),
    Template(
        "medium",
        ("first_index_above", "position_over", "find_greater"),
        "(numbers: list[int]) -> int",
        "Return the index of the first number that is greater than {k}, or -1 if there is none.",
        """
        for i, n in enumerate(numbers):
            if n > {k}:
                return i
        return -1
        """,
        lambda r, k: (numbers(r, k - 6, k + r.randint(0, 4)),),
        range(8, 41, 4),
        slip="return next((n for n in numbers if n > {k}), -1)",
    ),
    Template(
        "medium",
        ("keep_multiples", "select_divisible", "multiples_only"),
        "(numbers: list[int]) -> list[int]",
        "Return the list of the numbers that are divisible by {k}.",
        "return [n for n in numbers if n % {k} == 0]",
        lambda r, k: ([r.choice((n, n * k)) for n in numbers(r, 1, 12)],),
        range(3, 8),
        slip="return [n for n in numbers if n % {k} != 0]",
    ),
    Template(
        "hard",
        ("second_largest", "runner_up", "next_to_largest"),
        "(numbers: list[int]) -> int",
        "Return the second largest of the different values in the list, or {k} if there is only one value.",
        """
        values = sorted(set(numbers))
        return values[-2] if len(values) > 1 else {k}
        """,
        lambda r, k: (numbers(r, 1, r.choice((1, 2, 9)), fewest=1, most=5),),
        (-1, 0, 99),
        slip="return sorted(numbers)[-2]",
    ),
    Template(
        "hard",
        ("drop_repeats", "unique_in_order", "without_duplicates"),
        "(numbers: list[int]) -> list[int]",
        "Return the list without repeated numbers, keeping the first of each in its place.",
        """
        kept = []
        for n in numbers:
            if n not in kept:
                kept.append(n)
        return kept
        """,
        lambda r, k: (numbers(r, 1, 7, fewest=4, most=7),),
        slip="return sorted(set(numbers))",
    ),
    Template(
        "hard",
        ("rotate_right", "turn_right", "cycle_items"),
        "(items: list[int]) -> list[int]",
        "Return the list rotated to the right by {k} places.",
        "return items[-{k}:] + items[:-{k}]",
        lambda r, k: (numbers(r, 1, 9, fewest=k + 1, most=7),),
        range(2, 5),
        slip="return items[{k}:] + items[:{k}]",
    ),
    Template(
        "hard",
        ("split_in_groups", "chunks", "make_batches"),
        "(items: list[int]) -> list[list[int]]",
        "Return the items in groups of {k}, where the last group may be shorter.",
        "return [items[i : i + {k}] for i in range(0, len(items), {k})]",
        lambda r, k: (numbers(r, 1, 9, fewest=k, most=7),),
        range(2, 5),
        slip="return [items[i : i + {k}] for i in range(0, len(items) - {k} + 1, {k})]",
    ),
    Template(
        "easy",
        ("contains_number", "has_number", "is_in_list"),
        "(numbers: list[int]) -> bool",
        "Return True if {k} is in the list, else False.",
        "return {k} in numbers",
        lambda r, k: (numbers(r, k - 2, k + 2, fewest=2, most=4),),
        range(3, 12),
    ),
    Template(
        "easy",
        ("put_at_end", "append_number", "extended"),
        "(numbers: list[int]) -> list[int]",
        "Return the list with {k} added at the end.",
        "return numbers + [{k}]",
        lambda r, k: (numbers(r, 1, 20, fewest=1, most=4),),
        range(0, 10),
    ),
    Template(
        "easy",
        ("flip_list", "reverse_items", "list_backwards"),
        "(items: list[int]) -> list[int]",
        "Return the list in reverse order.",
        "return items[::-1]",
        lambda r, k: (numbers(r, 1, 20),),
    ),
    Template(
        "easy",
        ("item_at", "pick_item", "get_item"),
        "(items: list[int]) -> int",
        "Return the item at index {k}.",
        "return items[{k}]",
        lambda r, k: (numbers(r, 1, 40, fewest=k + 1, most=7),),
        range(1, 5),
    ),
    Template(
        "medium",
        ("sum_of_largest", "total_of_best", "add_top"),
        "(numbers: list[int]) -> int",
        "Return the sum of the {k} largest numbers in the list.",
        "return sum(sorted(numbers)[-{k}:])",
        lambda r, k: (numbers(r, 1, 20, fewest=k, most=7),),
        range(2, 5),
        slip="return sum(numbers[:{k}])",
    ),
)
