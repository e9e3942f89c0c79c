"""Kernels and helpers of the tests."""

import functools
import importlib.util
import os
import shutil
import subprocess
import sys
import unittest

import longshore

SOURCE = """
#include <longshore_device.h>

LONGSHORE_KERNEL(saxpy, (uint64_t n, float a, const float *x, float *y)) {
  uint64_t i = longshore_global_id(0);
  if (i < n) y[i] += a * x[i];
}

LONGSHORE_KERNEL(numbers, (int8_t a, uint16_t b, int32_t c, double d, int64_t *out)) {
  out[0] = a;
  out[1] = b;
  out[2] = c;
  out[3] = (int64_t)d;
}

struct pair { float first; int32_t second; };
LONGSHORE_KERNEL(unpack, (LONGSHORE_BY_VALUE(struct pair, pair), float *out)) {
  out[0] = pair.first;
  out[1] = (float)pair.second;
}

LONGSHORE_KERNEL(await, (volatile uint32_t *flag, float *out)) {
  while (*flag == 0) {}
  out[0] += 1;
}

LONGSHORE_KERNEL(hold, (uint32_t rounds, volatile uint32_t *flag)) {
  for (uint32_t i = 0; i < rounds; i++) (void)*flag;
}

LONGSHORE_KERNEL(shape, (uint32_t *out)) {
  uint64_t i = longshore_global_id(0);
  uint64_t j = longshore_global_id(1);
  out[j * 6 + i] = (uint32_t)(100 * j + i);
}

LONGSHORE_GLOBAL uint32_t counter = 7;
LONGSHORE_KERNEL(count, (uint32_t n)) { counter += n; }
"""

numpy = None
if importlib.util.find_spec("numpy"):
    import numpy

needs_numpy = unittest.skipIf(numpy is None, "numpy is not installed")


def need_clang():
    """Skips the test without clang."""
    if not any(shutil.which(name) for name in ["clang", *(f"clang-{n}" for n in range(14, 30))]):
        raise unittest.SkipTest("clang is not installed")


@functools.cache
def image():
    """Returns the image of the tests' kernels; skips the test without clang.

    LONGSHORE_TEST_IMAGE names a file with it, for a machine without clang.
    """
    if "LONGSHORE_TEST_IMAGE" in os.environ:
        with open(os.environ["LONGSHORE_TEST_IMAGE"], "rb") as file:
            return file.read()
    need_clang()
    return longshore.compile(SOURCE)


class Case(unittest.TestCase):
    """A test with the CPU device, the tests' program and its kernels."""

    def setUp(self):
        self.device = longshore.device("host")
        self.program = self.device.load(image())

    def kernel(self, name):
        """Returns a kernel for one item."""
        return self.program[name][1, 1]

    def refuses(self, error, text, call):
        """Checks that a call raises an exception with this text."""
        with self.assertRaises(error) as caught:
            call()
        self.assertIn(text, str(caught.exception))
        return caught.exception


def run(script, *arguments, **options):
    """Runs a script in another interpreter and returns the finished process."""
    line = [sys.executable, "-c", script, *arguments]
    return subprocess.run(line, capture_output=True, text=True, timeout=60, **options)
