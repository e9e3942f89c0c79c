"""Times of the import and of kernel calls, beside ctypes on the C API in the same process.

Usage: measure.py [libLLVMOffload.so]
"""

import ctypes
import resource
import statistics
import subprocess
import sys
import time

import longshore

SOURCE = """
#include <longshore_device.h>
LONGSHORE_KERNEL(saxpy, (uint64_t n, float a, const float *x, float *y)) {
  uint64_t i = longshore_global_id(0);
  if (i < n) y[i] += a * x[i];
}
"""
CALLS = 2000
ROUNDS = 60


def imports():
    """Returns the milliseconds of the import, and of an interpreter without it.

    These are times of the processor: other work of the machine does not count.
    """

    def least(script):
        def once():
            begin = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([sys.executable, "-c", script], check=True)
            end = resource.getrusage(resource.RUSAGE_CHILDREN)
            return end.ru_utime + end.ru_stime - begin.ru_utime - begin.ru_stime

        return 1e3 * min(once() for _ in range(15))

    bare = least("pass")
    return least("import longshore") - bare, bare


def per_call(call, wait):
    """Returns least and median microseconds of a call; `wait` empties the queue in between."""
    times = []
    for _ in range(ROUNDS):
        wait()
        begin = time.perf_counter()
        for _ in range(CALLS):
            call()
        times.append((time.perf_counter() - begin) / CALLS * 1e6)
        wait()
    return min(times), statistics.median(times)


def per_idle_call(call, wait):
    """Returns least and median microseconds of single calls, each on an idle queue."""
    times = []
    for _ in range(CALLS):
        wait()
        begin = time.perf_counter()
        call()
        times.append((time.perf_counter() - begin) * 1e6)
    wait()
    return min(times), statistics.median(times)


class Offload:
    """The C API, by ctypes."""

    def __init__(self, path, image):
        self.library = ctypes.CDLL(path)
        pointer = ctypes.c_void_p
        self.check(self.library.olInit(None))
        devices = []
        visit = ctypes.CFUNCTYPE(ctypes.c_bool, pointer, pointer)
        self.visitor = visit(lambda device, _: devices.append(device) or True)
        self.check(self.library.olIterateDevices(self.visitor, None))
        # The host platform of the API itself has no plugin: the first device that loads counts.
        for device in devices:
            self.device, self.program = pointer(device), pointer()
            made = self.library.olCreateProgram(
                self.device, image, ctypes.c_size_t(len(image)), ctypes.byref(self.program)
            )
            if not made:
                break
        self.kernel, self.queue = pointer(), pointer()
        self.check(
            self.library.olGetSymbol(self.program, b"saxpy", 0, ctypes.byref(self.kernel))
        )
        self.check(self.library.olCreateQueue(self.device, ctypes.byref(self.queue)))
        self.x, self.y = pointer(), pointer()
        for memory in (self.x, self.y):
            size = ctypes.c_size_t(4096)
            self.check(self.library.olMemAlloc(self.device, 1, size, ctypes.byref(memory)))
        # Dimensions, groups, items, shared memory.
        self.shape = (ctypes.c_size_t * 5)()
        words = ctypes.cast(self.shape, ctypes.POINTER(ctypes.c_uint32))
        for index, value in enumerate([1, 0, 1, 1, 1, 1, 1, 1]):
            words[index] = value
        self.sizes = (ctypes.c_size_t * 4)(8, 4, 8, 8)
        self.launch = self.library.olLaunchKernel
        self.launch.argtypes = [pointer] * 5 + [ctypes.c_size_t] + [pointer] * 2
        self.launch.restype = pointer
        self.prepared = self.arguments(1, 2.5)
        self.check(self.call_prepared())

    def check(self, result):
        if result:
            raise OSError("a call of the C API failed")

    def arguments(self, n, a):
        values = (ctypes.c_uint64(n), ctypes.c_float(a), self.x, self.y)
        addresses = [ctypes.addressof(value) for value in values]
        return (ctypes.c_void_p * 4)(*addresses), values

    def call_prepared(self):
        return self.launch(
            self.queue, self.device, self.kernel, self.shape, None, 4, self.prepared[0], self.sizes
        )

    def call(self):
        arguments, _values = self.arguments(1, 2.5)
        self.launch(
            self.queue, self.device, self.kernel, self.shape, None, 4, arguments, self.sizes
        )

    def wait(self):
        self.check(self.library.olSyncQueue(self.queue))


def main():
    more, bare = imports()
    print(f"import longshore: {more:.1f} ms on top of {bare:.1f} ms of the interpreter")
    device = longshore.device("host")
    image = longshore.compile(SOURCE)
    saxpy = device.load(image)["saxpy"]
    x, y, queue = device.zeros(1), device.zeros(1), device.queue()
    launcher = saxpy[1, 1]
    rows = {
        "saxpy[1, 1](n, a, x, y, queue=q)": lambda: saxpy[1, 1](1, 2.5, x, y, queue=queue),
        "launcher(n, a, x, y, queue=q)": lambda: launcher(1, 2.5, x, y, queue=queue),
        "launcher(n, a, x, y, queue=q, wait=True)": lambda: launcher(
            1, 2.5, x, y, queue=queue, wait=True
        ),
    }
    found = {name: per_call(call, queue.synchronize) for name, call in rows.items()}
    name = "saxpy[1, 1](n, a, x, y, queue=q), idle queue, once"
    found[name] = per_idle_call(rows["saxpy[1, 1](n, a, x, y, queue=q)"], queue.synchronize)
    found["an empty function of Python"] = per_call(lambda: None, queue.synchronize)
    base = None
    if len(sys.argv) > 1:
        offload = Offload(sys.argv[1], image)
        found["ctypes, olLaunchKernel, prepared"] = per_call(offload.call_prepared, offload.wait)
        base = found["ctypes, olLaunchKernel"] = per_call(offload.call, offload.wait)
        name = "ctypes, olLaunchKernel, idle queue, once"
        found[name] = per_idle_call(offload.call, offload.wait)
    for name, (least, median) in found.items():
        ratio = f", {least / base[0]:.2f} of ctypes" if base else ""
        print(f"{name}: {least:.3f} us at least, {median:.3f} us median{ratio}")


if __name__ == "__main__":
    main()
