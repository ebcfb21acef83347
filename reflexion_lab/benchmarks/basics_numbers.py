"""Templates of `basics` about single numbers."""

from __future__ import annotations

from reflexion_lab.benchmarks.basics_template import Template

NUMBERS = (
    Template(
        "easy",
        ("add_offset", "shift_by", "plus_constant", "increase"),
        "(n: int) -> int",
        "Return n plus {k}.",
        "return n + {k}",
        lambda r, k: (r.randint(-20, 50),),
        range(3, 14),
    ),
    Template(
        "easy",
        ("square_less", "squared_minus", "reduced_square"),
        "(n: int) -> int",
        "Return the square of n, minus {k}.",
        "return n * n - {k}",
        lambda r, k: (r.randint(-12, 12),),
        range(2, 10),
    ),
    Template(
        "easy",
        ("larger_of_two", "greater_value", "pick_larger"),
        "(a: int, b: int) -> int",
        "Return the larger of the two numbers a and b.",
        "return max(a, b)",
        lambda r, k: (r.randint(-30, 30), r.randint(-30, 30)),
    ),
    Template(
        "easy",
        ("is_multiple", "divides_evenly", "has_no_remainder"),
        "(n: int) -> bool",
        "Return True if n is divisible by {k}, else False.",
        "return n % {k} == 0",
        lambda r, k: (r.randint(1, 80),),
        range(3, 10),
    ),
    Template(
        "easy",
        ("celsius_to_fahrenheit", "to_fahrenheit", "fahrenheit_from_celsius"),
        "(celsius: int) -> float",
        "Return the temperature in Fahrenheit, which is celsius times 9 / 5, plus 32.",
        "return celsius * 9 / 5 + 32",
        lambda r, k: (r.randrange(-40, 105, 5),),  # with fifths, every order of the formula rounds alike
    ),
    Template(
        "medium",
        ("clip", "clamp", "limit_to_range", "keep_within"),
        "(n: int) -> int",
        "Return n, but {k[0]} if n is smaller than {k[0]}, and {k[1]} if n is larger than {k[1]}.",
        "return max({k[0]}, min({k[1]}, n))",
        lambda r, k: (r.randint(k[0] - 10, k[1] + 10),),
        ((0, 10), (1, 6), (5, 20), (-5, 5), (10, 50), (2, 12)),
        slip="return min({k[0]}, max({k[1]}, n))",
    ),
    Template(
        "medium",
        ("multiples_up_to", "list_multiples", "multiples_until"),
        "(n: int) -> list[int]",
        "Return the list of the multiples of {k} from {k} up to and including n.",
        "return list(range({k}, n + 1, {k}))",
        lambda r, k: (r.choice((k * r.randint(1, 6), r.randint(1, 40))),),
        range(3, 8),
        slip="return list(range({k}, n, {k}))",
    ),
    Template(
        "medium",
        ("digit_sum", "sum_of_digits", "add_digits"),
        "(n: int) -> int",
        "Return the sum of the digits of n.",
        "return sum(int(digit) for digit in str(n))",
        lambda r, k: (r.randint(10, 9999),),
        slip="return n % 10 + n // 10",
    ),
    Template(
        "medium",
        ("count_down", "descending_to", "numbers_down_to"),
        "(n: int) -> list[int]",
        "Return the list of the numbers from n down to {k}, both included.",
        """
        numbers = []
        while n >= {k}:
            numbers.append(n)
            n -= 1
        return numbers
        """,
        lambda r, k: (r.randint(k, k + 12),),
        range(1, 6),
        slip="return list(range(n, {k}, -1))",
    ),
    Template(
        "medium",
        ("size_label", "classify_size", "name_size"),
        "(n: int) -> str",
        "Return 'small' if n is less than {k}, otherwise return 'large'.",
        "return 'small' if n < {k} else 'large'",
        lambda r, k: (k + r.randint(-8, 8),),
        range(10, 61, 10),
        slip="return 'large' if n < {k} else 'small'",
    ),
    Template(
        "hard",
        ("round_up", "next_multiple", "raise_to_multiple"),
        "(n: int) -> int",
        "Return the smallest multiple of {k} that is not smaller than n.",
        """
        rest = n % {k}
        return n if rest == 0 else n + {k} - rest
        """,
        lambda r, k: (r.choice((k * r.randint(1, 9), r.randint(1, 60))),),
        range(3, 10),
        slip="return (n // {k} + 1) * {k}",
    ),
    Template(
        "hard",
        ("blank_multiples", "zero_multiples", "count_with_gaps"),
        "(n: int) -> list[int]",
        "Return the list of the numbers from 1 to n, with 0 in the place of every multiple of {k}.",
        "return [0 if i % {k} == 0 else i for i in range(1, n + 1)]",
        lambda r, k: (r.randint(1, 14),),
        range(3, 7),
        slip="return [i for i in range(1, n + 1) if i % {k} != 0]",
    ),
    Template(
        "hard",
        ("count_digits_above", "big_digits", "digits_over"),
        "(n: int) -> int",
        "Return how many digits of n are greater than {k}, where n may be negative.",
        "return sum(int(digit) > {k} for digit in str(abs(n)))",
        lambda r, k: (r.randint(-9999, 9999),),
        range(2, 8),
        slip="return sum(int(digit) > {k} for digit in str(n))",
    ),
    Template(
        "hard",
        ("total_price", "price_with_free_items", "amount_due"),
        "(n: int) -> int",
        "Return the price of n items that cost {k[0]} each, when every {k[1]}th item is free.",
        """
        paid = n - n // {k[1]}
        return paid * {k[0]}
        """,
        lambda r, k: (r.randint(1, 40),),
        ((3, 4), (2, 5), (4, 6), (7, 4), (5, 5), (6, 10)),
        slip="return n * {k[0]}",
    ),
    Template(
        "easy",
        ("rest_of_division", "left_over", "remainder_of"),
        "(n: int) -> int",
        "Return the remainder when n is divided by {k}.",
        "return n % {k}",
        lambda r, k: (r.randint(1, 99),),
        range(3, 12),
    ),
    Template(
        "easy",
        ("is_above", "exceeds", "is_more_than"),
        "(n: int) -> bool",
        "Return True if n is greater than {k}, else False.",
        "return n > {k}",
        lambda r, k: (k + r.randint(-6, 6),),
        range(10, 91, 10),
    ),
    Template(
        "easy",
        ("mean_of_two", "average_of_two", "midpoint"),
        "(a: int, b: int) -> float",
        "Return the average of a and b.",
        "return (a + b) / 2",
        lambda r, k: (r.randint(-20, 60), r.randint(-20, 60)),
    ),
    Template(
        "easy",
        ("distance_between", "absolute_difference", "gap"),
        "(a: int, b: int) -> int",
        "Return the absolute difference between a and b.",
        "return abs(a - b)",
        lambda r, k: (r.randint(-30, 30), r.randint(-30, 30)),
    ),
    Template(
        "easy",
        ("rectangle_area", "area_of_rectangle", "field_area"),
        "(width: int, height: int) -> int",
        "Return the area of a rectangle with this width and height.",
        "return width * height",
        lambda r, k: (r.randint(1, 30), r.randint(1, 30)),
    ),
    Template(
        "easy",
        ("take_from", "subtract_from", "what_is_left"),
        "(n: int) -> int",
        "Return {k} minus n.",
        "return {k} - n",
        lambda r, k: (r.randint(-20, 99),),
        range(20, 101, 10),
    ),
    Template(
        "medium",
        ("count_divisors", "number_of_divisors", "divisor_count"),
        "(n: int) -> int",
        "Return how many numbers from 1 to n divide n without a remainder.",
        "return 1 + sum(n % i == 0 for i in range(1, n // 2 + 1))",
        lambda r, k: (r.choice((r.randint(2, 5), r.randint(2, 60))),),
        slip="return sum(n % i == 0 for i in range(2, n))",
    ),
)
