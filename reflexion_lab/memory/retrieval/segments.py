"""Word counts of consecutive documents, by document and by word; and the best of many scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from reflexion_lab.protocols import Hit

if TYPE_CHECKING:
    from numpy.typing import NDArray

Array: TypeAlias = "NDArray[Any]"
Postings: TypeAlias = tuple[Array, Array]
"""Rows that hold a word, ascending, and one value for each."""
BLOCK = 256
"""Scores of which the best stands for all while the k-th best is looked for."""


class Segment(NamedTuple):
    rows: Any
    """SciPy CSR array, float32, shape (documents, words known at the time)."""
    lengths: Array
    """Words of each document, repeats included; int32."""
    starts: Array
    """The postings of word w are `places[starts[w] : starts[w + 1]]`; so are their `counts`."""
    places: Array
    """Rows in the whole index, ascending within a word; int32."""
    counts: Array
    """float32."""


def counted(words: Array, lengths: Array, known: int) -> Any:
    """CSR array of how often each document holds each word.

    Args:
        words: int32, the words of all documents, one document after the other.
        lengths: how many words are each document's.
        known: words that have a number; the columns of the result.
    """
    import numpy as np
    from scipy import sparse

    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)  # SciPy keeps 32 bits only where all are
    rows = sparse.csr_array((np.ones(len(words), np.float32), words, starts), shape=(len(lengths), known))
    rows.sum_duplicates()
    return rows


def segment(rows: Any, lengths: Array, first: int) -> Segment:
    """`rows` by word as well; its first row is row `first` of the index."""
    columns = rows.tocsc()
    columns.indices += first
    return Segment(rows, lengths, columns.indptr, columns.indices, columns.data)


def stacked(parts: Sequence[Any], known: int) -> Any:
    """CSR arrays below one another, as wide as all known words."""
    from scipy import sparse

    wide = [sparse.csr_array((part.data, part.indices, part.indptr), shape=(part.shape[0], known)) for part in parts]
    return wide[0] if len(wide) == 1 else sparse.vstack(wide, format="csr")


def renumbered(rows: Any, numbers: Array, known: int) -> Any:
    """The same counts with other numbers for the words, in the same order."""
    from scipy import sparse

    return sparse.csr_array((rows.data, numbers[rows.indices], rows.indptr), shape=(rows.shape[0], known))


def best(scores: Array, k: int, first: int, digits: int | None = None) -> list[Hit]:
    """The `k` best scores above 0, equal ones from the last to the first.

    Args:
        first: the number of the document that `scores[0]` belongs to.
        digits: decimals that scores are rounded to before they are compared; None leaves them as they are.
    """
    import numpy as np

    maxima = np.maximum.reduceat(scores, np.arange(0, len(scores), BLOCK)) if len(scores) else scores
    # So many blocks hold a score of at least `bound`: what is below it is not among the k best.
    bound = np.partition(maxima, -k)[-k] if k <= len(maxima) else 0.0
    bound -= 0.0 if digits is None else 10.0**-digits
    places = np.flatnonzero((scores > 0) & (scores >= bound))[::-1]
    found = scores[places] if digits is None else np.round(scores[places], digits)
    order = np.argsort(-found, kind="stable")[:k]
    pairs = zip(places[order].tolist(), np.minimum(found[order], 1.0).tolist(), strict=True)
    return [Hit(first + place, score) for place, score in pairs if score > 0]
