"""numpy, which loads at its first use, so that commands which compute nothing start without it; and types of arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = ["Array", "ArrayLike", "Booleans", "Float32s", "Floats", "Integers", "np"]

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    Array = NDArray[Any]
    Floats = NDArray[np.float64]
    Float32s = NDArray[np.float32]
    Integers = NDArray[np.int64]
    Booleans = NDArray[np.bool_]
else:

    class _Numpy:
        def __getattr__(self, name: str) -> Any:
            import numpy

            return getattr(numpy, name)

    np = _Numpy()
    Array = ArrayLike = Booleans = Float32s = Floats = Integers = Any
