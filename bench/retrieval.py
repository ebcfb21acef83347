"""What retrieval costs: words (lexical.py) and vectors (vectors.py), beside their peers.

    python bench/retrieval.py [--documents 100000] [--queries 30] [--vectors 100000] [--texts 1000] [--smallest]

Every ratio is of two things measured in turns in this one run.
"""

import lexical
import vectors
from table import options_of, print_rows


def main():
    options = options_of(__doc__, documents=100_000, queries=30, vectors=100_000, texts=1000)
    sizes = (200, 5, 1000, 40) if options.smallest else (*vars(options).values(),)
    print_rows([*lexical.rows(*sizes[:2]), *vectors.rows(*sizes[2:4])])


if __name__ == "__main__":
    main()
