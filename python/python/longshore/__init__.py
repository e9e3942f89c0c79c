"""Kernels on GPUs and the CPU, from Python.

The package finds devices, loads images, launches kernels, and shares arrays with NumPy and with
libraries that know DLPack:

>>> import longshore
>>> device = longshore.device("host")
>>> program = device.load(source='''
... #include <longshore_device.h>
... LONGSHORE_KERNEL(saxpy, (uint64_t n, float a, const float *x, float *y)) {
...   uint64_t i = longshore_global_id(0);
...   if (i < n) y[i] += a * x[i];
... }
... ''')
>>> x, y = device.full(1000, 1), device.full(1000, 2)
>>> program["saxpy"][8, 128](1000, 2.5, x, y)
>>> y.numpy()[0]
np.float32(4.5)
"""

import atexit as _atexit
import os as _os

from ._compile import command, compile
from ._errors import Error, ErrorCode
from ._native import (
    Array,
    Device,
    Event,
    Kernel,
    Launcher,
    Program,
    Queue,
    __version__,
    _close_all,
    device,
    devices,
    from_dlpack,
    plugins,
)

__all__ = [
    "Array",
    "Device",
    "Error",
    "ErrorCode",
    "Event",
    "Kernel",
    "Launcher",
    "Program",
    "Queue",
    "__version__",
    "command",
    "compile",
    "device",
    "devices",
    "from_dlpack",
    "include_folder",
    "plugins",
]


def include_folder() -> str:
    """Returns the folder of `longshore_device.h`, for compilers and editors."""
    return _os.path.join(_os.path.dirname(__file__), "include")


_atexit.register(_close_all)
