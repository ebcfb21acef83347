"""Templates of `basics` about conditions."""

from __future__ import annotations

from random import Random

from reflexion_lab.benchmarks.basics_template import Template

LOGIC = (
    Template(
        "easy",
        ("is_between", "in_range", "lies_within"),
        "(n: int) -> bool",
        "Return True if n is between {k[0]} and {k[1]}, both included, else False.",
        "return {k[0]} <= n <= {k[1]}",
        lambda r, k: (r.choice((r.randint(k[0] - 5, k[1] + 5), r.choice(k) + r.randint(-1, 1))),),
        ((1, 9), (0, 12), (5, 15), (10, 20), (3, 30), (18, 65)),
    ),
    Template(
        "easy",
        ("both_above", "both_exceed", "two_above"),
        "(a: int, b: int) -> bool",
        "Return True if a and b are both greater than {k}, else False.",
        "return a > {k} and b > {k}",
        lambda r, k: (k + r.randint(-3, 4), k + r.randint(-3, 4)),
        range(10, 61, 10),
    ),
    Template(
        "easy",
        ("even_or_odd", "parity_word", "name_parity"),
        "(n: int) -> str",
        "Return {k[0]!r} if n is even, else {k[1]!r}.",
        "return {k[0]!r} if n % 2 == 0 else {k[1]!r}",
        lambda r, k: (r.randint(0, 60),),
        (("even", "odd"), ("yes", "no"), ("left", "right"), ("white", "black"), ("A", "B")),
    ),
    Template(
        "easy",
        ("numbers_agree", "is_same", "are_equal"),
        "(a: int, b: int) -> bool",
        "Return True if a is equal to b plus {k}, else False.",
        "return a == b + {k}",
        lambda r, k: ((b := r.randint(-9, 30)) + k + r.choice((-1, 0, 0, 1)), b),
        range(2, 10),
    ),
    Template(
        "easy",
        ("double_or_keep", "double_if_small", "small_ones_twice"),
        "(n: int) -> int",
        "Return n * 2 if n is less than {k}, else return n.",
        "return n * 2 if n < {k} else n",
        lambda r, k: (k + r.randint(-7, 7),),
        range(10, 61, 10),
    ),
    Template(
        "easy",
        ("at_least_one_above", "one_is_above", "any_exceeds"),
        "(a: int, b: int) -> bool",
        "Return True if a or b is greater than {k}, else False.",
        "return a > {k} or b > {k}",
        lambda r, k: (k + r.randint(-4, 3), k + r.randint(-4, 3)),
        range(15, 66, 10),
    ),
    Template(
        "medium",
        ("sign_of", "sign_number", "direction"),
        "(n: int) -> int",
        "Return {k} if n is positive, -{k} if n is negative, and 0 if n is 0.",
        "return {k} if n > 0 else -{k} if n < 0 else 0",
        lambda r, k: (r.randint(-6, 6),),
        range(1, 6),
        slip="return -{k} if n > 0 else {k} if n < 0 else 0",
    ),
    Template(
        "medium",
        ("ticket_price", "price_by_age", "entrance_fee"),
        "(age: int) -> int",
        "Return the price of a ticket: {k[0]} for an age below {k[1]}, and {k[2]} otherwise.",
        "return {k[0]} if age < {k[1]} else {k[2]}",
        lambda r, k: (r.choice((k[1] + r.randint(-3, 3), r.randint(1, 80))),),
        ((5, 12, 9), (3, 18, 8), (4, 16, 7), (2, 6, 10), (6, 21, 11)),
        slip="return {k[2]} if age < {k[1]} else {k[0]}",
    ),
    Template(
        "medium",
        ("two_of_three", "most_are_above", "majority_above"),
        "(a: int, b: int, c: int) -> bool",
        "Return True if at least two of the numbers a, b and c are greater than {k}, else False.",
        "return (a > {k}) + (b > {k}) + (c > {k}) >= 2",
        lambda r, k: tuple(k + r.randint(-2, 3) for _ in range(3)),
        range(10, 61, 10),
        slip="return (a > {k}) + (b > {k}) + (c > {k}) == 2",
    ),
    Template(
        "medium",
        ("is_outside", "falls_outside", "out_of_range"),
        "(n: int) -> bool",
        "Return True if n is less than {k[0]} or greater than {k[1]}, else False.",
        "return n < {k[0]} or n > {k[1]}",
        lambda r, k: (r.choice((r.randint(k[0] - 4, k[1] + 4), r.choice(k) + r.randint(-1, 1))),),
        ((1, 9), (0, 12), (5, 15), (10, 20), (3, 30), (18, 65)),
        slip="return n < {k[0]} and n > {k[1]}",
    ),
    Template(
        "medium",
        ("middle_of_three", "median_of_three", "neither_extreme"),
        "(a: int, b: int, c: int) -> int",
        "Return the number in the middle when a, b and c are sorted.",
        "return sorted([a, b, c])[1]",
        lambda r, k: tuple(r.randint(-9, 30) for _ in range(3)),
        slip="return b",
    ),
    Template(
        "medium",
        ("divisible_by_one_only", "exactly_one_divides", "one_but_not_both"),
        "(n: int) -> bool",
        "Return True if n is divisible by {k[0]} or by {k[1]} but not by both, else False.",
        "return (n % {k[0]} == 0) != (n % {k[1]} == 0)",
        lambda r, k: (r.choice((r.randint(1, 60), k[0] * k[1] * r.randint(1, 4), r.choice(k) * r.randint(1, 20))),),
        ((2, 3), (3, 4), (2, 5), (3, 5), (4, 5), (2, 7)),
        slip="return n % {k[0]} == 0 or n % {k[1]} == 0",
    ),
    Template(
        "hard",
        ("two_names", "word_by_divisors", "divisor_words"),
        "(n: int) -> str",
        "Return {k[2]!r} if n is divisible by {k[0]} and by {k[1]}, {k[3]!r} if it is only divisible by {k[0]}, "
        "{k[4]!r} if only by {k[1]}, else the number as a string.",
        """
        if n % {k[0]} == 0 and n % {k[1]} == 0:
            return {k[2]!r}
        if n % {k[0]} == 0:
            return {k[3]!r}
        if n % {k[1]} == 0:
            return {k[4]!r}
        return str(n)
        """,
        lambda r, k: (r.choice((r.randint(1, 40), k[0] * k[1] * r.randint(1, 4), r.choice(k[:2]) * r.randint(1, 9))),),
        ((2, 7, "both", "two", "seven"), (3, 4, "tick tock", "tick", "tock"), (2, 5, "ab", "a", "b")),
        slip="""
        if n % {k[0]} == 0:
            return {k[3]!r}
        return {k[4]!r} if n % {k[1]} == 0 else str(n)
        """,
    ),
    Template(
        "hard",
        ("mark_for_points", "letter_mark", "school_mark"),
        "(points: int) -> str",
        "Return 'A' from {k[0]} points on, 'B' from {k[1]} on, 'C' from {k[2]} on, and 'D' below that.",
        """
        for letter, limit in (('A', {k[0]}), ('B', {k[1]}), ('C', {k[2]})):
            if points >= limit:
                return letter
        return 'D'
        """,
        lambda r, k: (r.choice((r.choice(k) + r.randint(-1, 1), r.randint(0, 100))),),
        ((90, 75, 50), (85, 70, 55), (80, 60, 40), (95, 80, 65)),
        slip="return 'A' if points >= {k[0]} else 'B' if points >= {k[1]} else 'C'",
    ),
    Template(
        "hard",
        ("can_be_triangle", "is_triangle", "sides_fit"),
        "(a: int, b: int, c: int) -> bool",
        "Return True if each of the lengths a, b and c is less than the sum of the other two, else False.",
        "return a < b + c and b < a + c and c < a + b",
        lambda r, k: r.choice((_sides(r), tuple(r.randint(1, 9) for _ in range(3)))),
        slip="return c < a + b",
    ),
    Template(
        "hard",
        ("fee_for_weight", "parcel_price", "cost_to_send"),
        "(weight: int) -> int",
        "Return the price of a parcel: {k[0]} for up to {k[1]} kg, and {k[2]} more for every kg above that.",
        "return {k[0]} + {k[2]} * max(0, weight - {k[1]})",
        lambda r, k: (k[1] + r.randint(-5, 9),),
        ((4, 6, 2), (7, 5, 3), (3, 8, 4), (5, 10, 2), (6, 7, 5)),
        slip="return {k[0]} + {k[2]} * (weight - {k[1]})",
    ),
)


def _sides(r: Random) -> tuple[int, ...]:
    """Two lengths and one that is about their sum, in any order."""
    a, b = r.randint(1, 9), r.randint(1, 9)
    return tuple(r.sample((a, b, a + b + r.randint(-1, 1)), 3))
