"""Conversions between arrays and NumPy, which is imported here alone, at its first use."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy

    from ._native import Array

_PLAIN = {float: "float64", int: "int64", bool: "bool", complex: "complex128"}
_FORMATS = {
    "float32": "f",
    "float64": "d",
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint8": "B",
    "uint16": "H",
    "uint32": "I",
    "uint64": "Q",
    "bool": "?",
}


def _numpy() -> Any:
    """Returns the module numpy."""
    try:
        import numpy
    except ImportError as error:
        message = (
            "this needs NumPy, which is not installed: `pip install numpy`; bytes, bytearray and "
            "array.array need no NumPy, and tobytes() returns bytes"
        )
        raise ImportError(message) from error
    return numpy


def dtype_name(dtype: Any) -> str:
    """Returns the name of a type of elements."""
    if isinstance(dtype, type) and dtype in _PLAIN:
        return _PLAIN[dtype]
    name = getattr(dtype, "name", None)
    if isinstance(name, str):
        return name
    try:
        return str(_numpy().dtype(dtype).name)
    except (TypeError, ImportError):
        return str(dtype)


def empty(shape: tuple[int, ...], name: str) -> numpy.ndarray[Any, Any]:
    """Returns a new array of NumPy; for `bfloat16` with the bits as integers."""
    made: numpy.ndarray[Any, Any]
    made = _numpy().empty(shape, "uint16" if name == "bfloat16" else name)
    return made


def finished(array: numpy.ndarray[Any, Any], name: str) -> numpy.ndarray[Any, Any]:
    """Returns an array of `empty` with its own type of elements."""
    return _widened(array) if name == "bfloat16" else array


def _widened(bits: numpy.ndarray[Any, Any]) -> numpy.ndarray[Any, Any]:
    """Returns numbers in single precision of the bits of `bfloat16`."""
    single: numpy.ndarray[Any, Any]
    single = (bits.astype("uint32") << 16).view("float32")
    return single


def contiguous(values: Any, name: str | None) -> Any:
    """Returns values as an array of NumPy without gaps, with elements of this name."""
    numpy = _numpy()
    if hasattr(values, "__dlpack__") and not hasattr(values, "__array__"):
        values = numpy.from_dlpack(values)
    if name == "bfloat16":
        single = numpy.ascontiguousarray(values, numpy.float32)
        bits = single.view(numpy.uint32).astype(numpy.uint64)
        return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(numpy.uint16)
    array = numpy.asarray(values, name, order="C")
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def as_numpy(array: Array, dtype: Any, copy: bool | None) -> numpy.ndarray[Any, Any]:
    """Returns a view of an array where its memory can be viewed, else a copy."""
    numpy = _numpy()
    if copy:
        made = array.numpy()
    else:
        try:
            made = numpy.asarray(memoryview(array))
        except BufferError:
            if copy is False:
                raise ValueError("the memory of this array cannot be viewed") from None
            made = array.numpy()
    return made if dtype is None else made.astype(dtype, copy=False)


def tolist(array: Array) -> Any:
    """Returns the elements as numbers of Python, without NumPy where it is not needed."""
    form = _FORMATS.get(array.dtype)
    if form is None or array.size == 0 or sys.byteorder != "little":
        return array.numpy().tolist()
    data: Any = memoryview(array.tobytes())
    return data.cast(form, array.shape).tolist() if array.ndim else data.cast(form)[0]
