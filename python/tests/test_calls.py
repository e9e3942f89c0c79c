"""Calls of kernels: values, checks of arguments, shapes, queues."""

import ctypes
import struct

import longshore
from support import Case, needs_numpy, numpy


class Calls(Case):
    def test_a_kernel_computes_with_its_arguments(self):
        x, y = self.device.full(1000, 1), self.device.full(1000, 2)
        self.program["saxpy"][8, 128](1000, 2.5, x, y)
        self.assertEqual(y.tolist(), [4.5] * 1000)

    def test_a_call_on_a_queue_is_in_its_order(self):
        x, y = self.device.full(8, 1), self.device.zeros(8)
        with self.device.queue() as queue:
            for _ in range(100):
                self.program["saxpy"][1, 8](8, 1, x, y, queue=queue)
            self.assertIsNone(self.program["saxpy"][1, 8](8, 1, x, y, queue=queue, wait=True))
        self.assertEqual(y.tolist(), [101.0] * 8)

    def test_numbers_of_every_type_arrive(self):
        out = self.device.zeros(4, "int64")
        self.kernel("numbers")(-128, 65535, -(2**31), 3, out)
        self.assertEqual(out.tolist(), [-128, 65535, -(2**31), 3])

    @needs_numpy
    def test_numbers_of_numpy_arrive(self):
        out = self.device.zeros(4, "int64")
        self.kernel("numbers")(
            numpy.int64(-3), numpy.uint8(4), numpy.int32(5), numpy.float32(6.0), out
        )
        self.assertEqual(out.tolist(), [-3, 4, 5, 6])

    def test_a_structure_arrives_as_bytes(self):
        class Pair(ctypes.Structure):
            _fields_ = [("first", ctypes.c_float), ("second", ctypes.c_int32)]

        out = self.device.zeros(2)
        for pair in [struct.pack("fi", 1.5, -2), Pair(1.5, -2)]:
            out.fill(0)
            self.kernel("unpack")(pair, out)
            self.assertEqual(out.tolist(), [1.5, -2.0])
        self.refuses(
            TypeError,
            "argument 0 'struct pair pair' takes 8 bytes without gaps; a value of 3 bytes",
            lambda: self.kernel("unpack")(b"abc", out),
        )

    def test_a_wrong_argument_is_named(self):
        x, y = self.device.zeros(8), self.device.zeros(8)
        wide, saxpy = self.device.zeros(8, "float64"), self.kernel("saxpy")
        for arguments, error, text in [
            ((8, 1, x), TypeError, "takes 4 arguments (uint64_t n, float a, const float *x,"),
            ((-1, 1, x, y), OverflowError, "argument 0 'uint64_t n': -1 is not in the range"),
            ((2**64, 1, x, y), OverflowError, "range from 0 to 18446744073709551615"),
            ((1.0, 1, x, y), TypeError, "declared as u64; a value of type float was given"),
            ((8, "1", x, y), TypeError, "declared as f32; a value of type str was given"),
            ((8, 1e39, x, y), OverflowError, "argument 1 'float a': 1e39 is beyond its range"),
            ((8, 1, wide, y), TypeError, "declared as pointer to f32; an array of float64"),
            ((8, 1, x, y[::2]), TypeError, "is an array of float32 with gaps; copy() closes"),
            ((8, 1, 4096, y), TypeError, "declared as pointer to f32; a value of type int"),
            ((8, x, x, y), TypeError, "declared as f32; a value of type Array was given"),
        ]:
            with self.subTest(text):
                self.refuses(error, text, lambda: saxpy(*arguments))
        numbers = self.kernel("numbers")
        for arguments in [(128, 0, 0, 0), (0, -1, 0, 0), (0, 65536, 0, 0), (0, 0, 2**31, 0)]:
            out = self.device.zeros(4, "int64")
            with self.assertRaises(OverflowError):
                numbers(*arguments, out)

    def test_special_numbers_and_roundings_arrive(self):
        x, y = self.device.full(1, 1), self.device.zeros(1)
        for given, expected in [(float("inf"), float("inf")), (0.1, struct.unpack("f", struct.pack("f", 0.1))[0])]:
            y.fill(0)
            self.kernel("saxpy")(1, given, x, y)
            self.assertEqual(y.item(), expected)

    def test_a_null_pointer_is_none(self):
        self.kernel("saxpy")(0, 1, None, None)
        self.device.default_queue.synchronize()

    def test_an_unknown_keyword_is_refused(self):
        self.refuses(TypeError, "got the keyword stream", lambda: self.kernel("count")(1, stream=2))
        self.refuses(TypeError, "queue of type int", lambda: self.kernel("count")(1, queue=2))

    def test_shapes_are_numbers_or_tuples(self):
        out = self.device.zeros(24, "uint32")
        self.program["shape"][(3, 2), (2, 2)](out)
        self.assertEqual(out.tolist(), [100 * j + i for j in range(4) for i in range(6)])
        kernel = self.program["shape"]
        for key in [8, (1,), (1, 2, 3, 4), ((1, 1, 1, 1), 1), ("a", 1), ((), 1)]:
            with self.assertRaises(TypeError):
                kernel[key]
        with self.assertRaises(OverflowError):
            kernel[-1, 1]
        self.refuses(longshore.Error, "at least 1", lambda: kernel[0, 1](out))

    def test_the_launcher_of_a_shape_is_reused(self):
        kernel = self.program["shape"]
        self.assertIs(kernel[3, (4, 5)], kernel[3, (4, 5)])
        self.assertIsNot(kernel[3, 4], kernel[3, 4, 1024])

    def test_kernels_and_variables_describe_themselves(self):
        self.assertEqual(
            self.program["saxpy"].arguments,
            [
                ("u64", "uint64_t n"),
                ("f32", "float a"),
                ("pointer to f32", "const float *x"),
                ("pointer to f32", "float *y"),
            ],
        )
        self.assertIn("saxpy", self.program.kernels)
        self.assertEqual(self.program.variables, ["counter"])
        self.assertIn("saxpy(uint64_t n, float a,", repr(self.program["saxpy"]))
        error = self.refuses(longshore.Error, "saxpy", lambda: self.program["saxpi"])
        self.assertEqual(error.code, longshore.ErrorCode.NOT_FOUND)

    def test_a_variable_is_an_array(self):
        counter = self.program.variable("counter", "uint32")
        self.kernel("count")(5)
        self.device.default_queue.synchronize()
        self.assertEqual(counter.tolist(), [12])
        counter[0] = 100
        self.kernel("count")(1)
        self.device.default_queue.synchronize()
        self.assertEqual(counter.tolist(), [101])
        with self.assertRaises(BufferError):
            memoryview(counter)
        self.refuses(ValueError, "has 4 bytes", lambda: self.program.variable("counter", "int64"))

    def test_events_order_queues_and_measure(self):
        x, y = self.device.full(8, 1), self.device.zeros(8)
        first, second = self.device.queue(), self.device.queue()
        start = first.record(timed=True)
        self.program["saxpy"][1, 8](8, 1, x, y, queue=first)
        end = first.record(timed=True)
        second.wait_for(end)
        self.program["saxpy"][1, 8](8, 1, x, y, queue=second)
        self.assertTrue(second.synchronize())
        self.assertTrue(end.is_complete and end.synchronize(timeout=1))
        self.assertGreaterEqual(start.elapsed(end), 0)
        self.assertEqual(y.tolist(), [2.0] * 8)
        with self.assertRaises(ValueError):
            first.synchronize(timeout=-1)
