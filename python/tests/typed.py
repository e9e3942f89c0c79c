"""A program whose types mypy checks against the package's stubs."""

from __future__ import annotations

import numpy

import longshore


def total(values: numpy.ndarray[tuple[int], numpy.dtype[numpy.float32]]) -> float:
    """Adds numbers to themselves on a device, and returns their sum."""
    with longshore.device() as device, device.load("saxpy.img") as program:
        saxpy: longshore.Kernel = program["saxpy"]
        x: longshore.Array = device.array(values)
        queue: longshore.Queue = device.queue()
        saxpy[8, (128, 1)](len(x), 1.0, x, x, queue=queue)
        event: longshore.Event = queue.record(timed=True)
        event.synchronize(timeout=1.5)
        view = memoryview(x[::2])
        assert view.format == "f"
        try:
            longshore.from_dlpack(values).fill(0)
        except longshore.Error as error:
            code: longshore.ErrorCode = error.code
            print(code.name, error.hint or "")
        return float(x.numpy().sum())
