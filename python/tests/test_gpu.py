"""Arrays on a GPU, whose memory the program cannot access."""

import array
import unittest

import longshore
from support import need_clang, needs_numpy, numpy


def first(backend):
    """Returns the first device of a backend; skips the test without one."""
    for device in longshore.devices():
        if device.backend == backend:
            return device
    raise unittest.SkipTest(f"there is no device of the backend {backend}")


class Cuda(unittest.TestCase):
    def setUp(self):
        self.device = first("cuda")

    def test_values_come_and_go(self):
        made = self.device.array(array.array("f", range(12))).reshape(3, 4)
        self.assertFalse(self.device.is_host_accessible)
        self.assertEqual(made[1:, ::2].tolist(), [[4, 6], [8, 10]])
        made[:, 1] = 7
        made[0] = array.array("f", [9, 9, 9, 9])
        self.assertEqual(made.tolist(), [[9, 9, 9, 9], [4, 7, 6, 7], [8, 7, 10, 11]])
        self.assertEqual(made[::2].copy().tolist(), [[9, 9, 9, 9], [8, 7, 10, 11]])
        self.assertEqual(made[0, 0].item(), 9)

    def test_queues_copy_between_devices(self):
        values = longshore.device("host").array(array.array("f", [1, 2]))
        made, other = self.device.zeros(2), self.device.zeros(2)
        with self.device.queue() as queue:
            self.assertTrue(queue.stream)
            queue.copy(made, values)
            queue.copy(other, made)
        self.assertEqual(other.tolist(), [1, 2])

    def test_memory_is_exchanged_and_not_viewed(self):
        made = self.device.array(array.array("f", [1, 2, 3, 4]))
        with self.assertRaises(BufferError) as caught:
            memoryview(made)
        self.assertIn("numpy() copies it", str(caught.exception))
        self.assertEqual(made.__dlpack_device__(), (2, self.device.index))
        shared = longshore.from_dlpack(made)
        self.assertEqual((shared.address, shared.device), (made.address, self.device))
        interface = made[::2].__cuda_array_interface__
        self.assertEqual(interface["data"], (made.address, False))
        self.assertEqual((interface["typestr"], interface["shape"]), ("<f4", (2,)))
        self.assertEqual((interface["strides"], interface["version"]), ((8,), 3))
        self.assertIsNone(made.__cuda_array_interface__["strides"])

    @needs_numpy
    def test_numpy_gets_a_copy(self):
        made = self.device.array(numpy.ones((2, 2), "float32"))
        copied = numpy.asarray(made)
        copied[0, 0] = 5
        self.assertEqual(made[0, 0].item(), 1)
        self.assertEqual(copied.shape, (2, 2))


class Vulkan(unittest.TestCase):
    def setUp(self):
        need_clang()
        self.device = first("vulkan")

    def test_a_source_runs_and_arguments_of_known_size_are_checked(self):
        program = self.device.load(source="""
#include <longshore_device.h>
LONGSHORE_KERNEL(saxpy, (uint64_t n, float a, const float *x, float *y)) {
  uint64_t i = longshore_global_id(0);
  if (i < n) y[i] += a * x[i];
}
""")
        x, y = self.device.full(100, 1), self.device.full(100, 2)
        saxpy = program["saxpy"][1, 128]
        saxpy(100, 2.5, x, y)
        self.assertEqual(y.tolist(), [4.5] * 100)
        for wrong, error in [("a", TypeError), (2**64, OverflowError)]:
            with self.assertRaises(error):
                saxpy(wrong, 2.5, x, y)
        with self.assertRaises(BufferError):
            y.__dlpack__()
