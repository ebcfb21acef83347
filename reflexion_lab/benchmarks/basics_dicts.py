"""Templates of `basics` about dictionaries."""

from __future__ import annotations

from random import Random

from reflexion_lab.benchmarks.basics_template import Template, numbers, quantities, words

DICTIONARIES = (
    Template(
        "easy",
        ("look_up", "value_of", "amount_of"),
        "(table: dict[str, int]) -> int",
        "Return the value of the key {k!r} in the dictionary, or 0 if the key is missing.",
        "return table.get({k!r}, 0)",
        lambda r, k: (quantities(r, 1, 20) | r.choice(({}, {k: r.randint(1, 20)})),),
        ("sun", "box", "lake", "stone", "apple", "river"),
    ),
    Template(
        "easy",
        ("has_key", "key_is_known", "knows_key"),
        "(table: dict[str, int]) -> bool",
        "Return True if {k!r} is a key of the dictionary, else False.",
        "return {k!r} in table",
        lambda r, k: (quantities(r, 1, 9, fewest=1) | r.choice(({}, {k: r.randint(1, 9)})),),
        ("red", "bird", "moon", "bridge", "orange", "silver"),
    ),
    Template(
        "easy",
        ("sum_of_values", "total_amount", "add_up_values"),
        "(table: dict[str, int]) -> int",
        "Return the sum of the values of the dictionary.",
        "return sum(table.values())",
        lambda r, k: (quantities(r, -5, 30),),
    ),
    Template(
        "easy",
        ("sorted_keys", "keys_in_order", "ordered_names"),
        "(table: dict[str, int]) -> list[str]",
        "Return the sorted list of the keys of the dictionary.",
        "return sorted(table)",
        lambda r, k: (quantities(r, 1, 9, fewest=2, most=5),),
    ),
    Template(
        "easy",
        ("single_entry", "one_entry", "start_table"),
        "(n: int) -> dict[str, int]",
        "Return a dictionary with the key {k!r}, whose value is n.",
        "return {{{k!r}: n}}",
        lambda r, k: (r.randint(-20, 99),),
        ("count", "size", "age", "price", "score", "level"),
    ),
    Template(
        "medium",
        ("keys_above", "names_with_more_than", "keys_over"),
        "(table: dict[str, int]) -> list[str]",
        "Return the list of the keys whose value is greater than {k}.",
        "return [key for key, value in table.items() if value > {k}]",
        lambda r, k: (quantities(r, k - 3, k + 3, fewest=3, most=5),),
        range(5, 31, 5),
        slip="return [value for key, value in table.items() if value > {k}]",
    ),
    Template(
        "medium",
        ("raise_values", "increase_all", "add_to_values"),
        "(table: dict[str, int]) -> dict[str, int]",
        "Return a dictionary with the same keys, where every value is larger by {k}.",
        "return {{key: value + {k} for key, value in table.items()}}",
        lambda r, k: (quantities(r, 1, 20),),
        range(2, 10),
        slip="return {{key: value * {k} for key, value in table.items()}}",
    ),
    Template(
        "medium",
        ("key_of_largest", "best_name", "top_key"),
        "(table: dict[str, int]) -> str",
        "Return the key that has the largest value.",
        "return max(table, key=lambda key: table[key])",
        lambda r, k: (dict(zip(words(r, 4, 4), r.sample(range(1, 40), r.randint(2, 4)), strict=False)),),
        slip="return max(table)",
    ),
    Template(
        "medium",
        ("exchange_keys", "invert_table", "values_to_keys"),
        "(table: dict[str, int]) -> dict[int, str]",
        "Return a dictionary in which keys and values have changed places.",
        "return {{value: key for key, value in table.items()}}",
        lambda r, k: (dict(zip(words(r, 4, 4), r.sample(range(1, 40), r.randint(2, 4)), strict=False)),),
        slip="return {{value: value for key, value in table.items()}}",
    ),
    Template(
        "medium",
        ("lengths_of_words", "word_lengths", "measure_words"),
        "(words: list[str]) -> dict[str, int]",
        "Return a dictionary that maps every word to its number of letters.",
        "return {{word: len(word) for word in words}}",
        lambda r, k: (words(r, 2, 4),),
        slip="return {{len(word): word for word in words}}",
    ),
    Template(
        "medium",
        ("drop_small_values", "entries_from", "keep_large_values"),
        "(table: dict[str, int]) -> dict[str, int]",
        "Return a dictionary of the entries whose value is at least {k}.",
        "return {{key: value for key, value in table.items() if value >= {k}}}",
        lambda r, k: (quantities(r, k - 3, k + 3, fewest=3, most=4),),
        range(5, 31, 5),
        slip="return {{key: value for key, value in table.items() if value > {k}}}",
    ),
    Template(
        "hard",
        ("count_each", "occurrences", "tally"),
        "(numbers: list[int]) -> dict[int, int]",
        "Return a dictionary that maps every number in the list to how often it occurs.",
        """
        counts = {{}}
        for n in numbers:
            counts[n] = counts.get(n, 0) + 1
        return counts
        """,
        lambda r, k: (numbers(r, 1, 4, fewest=2, most=6),),
        slip="return {{i: n for i, n in enumerate(numbers)}}",
    ),
    Template(
        "hard",
        ("merge_adding", "combine_amounts", "add_tables"),
        "(first: dict[str, int], second: dict[str, int]) -> dict[str, int]",
        "Return a dictionary with the keys of both; where a key is in both, its values are added.",
        """
        merged = dict(first)
        for key, value in second.items():
            merged[key] = merged.get(key, 0) + value
        return merged
        """,
        lambda r, k: _overlapping(r),
        slip="return {{**first, **second}}",
    ),
    Template(
        "hard",
        ("group_by_length", "words_by_length", "sort_into_lengths"),
        "(words: list[str]) -> dict[int, list[str]]",
        "Return a dictionary that maps each length to the list of the words of that length, in their order.",
        """
        groups = {{}}
        for word in words:
            groups.setdefault(len(word), []).append(word)
        return groups
        """,
        lambda r, k: (words(r, 3, 5),),
        slip="return {{len(word): [word] for word in words}}",
    ),
    Template(
        "hard",
        ("shopping_total", "basket_price", "cost_of_items"),
        "(prices: dict[str, int], items: list[str]) -> int",
        "Return the sum of the prices of the items, where an item that is not in prices costs {k}.",
        "return sum(prices.get(item, {k}) for item in items)",
        lambda r, k: _basket(r),
        range(1, 10),
        slip="return sum(prices[item] for item in items if item in prices)",
    ),
)


def _overlapping(r: Random) -> tuple[dict[str, int], dict[str, int]]:
    """Two dictionaries, most of which share a key."""
    known = words(r, 4, 4)
    first, second = (
        {key: r.randint(1, 20) for key in known[a:b]} for a, b in ((0, r.randint(1, 3)), (r.randint(1, 2), 4))
    )
    return first, second


def _basket(r: Random) -> tuple[dict[str, int], list[str]]:
    """Prices, and items that may come twice or have no price."""
    prices = quantities(r, 10, 40)
    return prices, r.choices([*prices, *words(r, 1, 2)], k=r.randint(2, 4))
