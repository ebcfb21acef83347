"""What retrieval costs: words (lexical.py) and vectors (vectors.py), beside their peers. Last line: one JSON object.

    python bench/retrieval.py [--documents 100000] [--queries 30] [--large 1000000] [--only lexical | vectors]

Every ratio is of two things measured in turns in this one run. `--large` builds the lexical retrievers once more, at a
size where their peers would take minutes.
"""

import argparse
import json


def printed(report, indent=0):
    """The figures as an indented table."""
    for name, value in report.items():
        nested = isinstance(value, dict)
        cell = f"{value:>16,}" if isinstance(value, float) or type(value) is int else f"{value!s:>16}"
        print(f"{' ' * indent}{name:<{40 - indent}} {'' if nested else cell}".rstrip())
        if nested:
            printed(value, indent + 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=100_000, help="descriptions that the lexical retrievers hold")
    parser.add_argument("--queries", type=int, default=30)
    parser.add_argument("--large", type=int, default=0, help="documents of a second, larger run; 0 for none")
    parser.add_argument("--only", choices=("lexical", "vectors"))
    options = parser.parse_args()
    report = {}
    if options.only != "vectors":
        import lexical

        report["lexical"] = lexical.measure(options.documents, options.queries)
        if options.large:
            report["lexical_large"] = lexical.measure_large(options.large)
    if options.only != "lexical":
        import vectors

        report["vectors"] = vectors.measure()
    printed(report)
    print(json.dumps(report))


if __name__ == "__main__":
    main()
