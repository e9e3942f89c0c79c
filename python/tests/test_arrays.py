"""Arrays: creation, slices, copies, and their exchange with NumPy and DLPack."""

import array
import gc
import weakref

import longshore
from support import Case, needs_numpy, numpy

try:
    import torch
except ImportError:
    torch = None

TYPES = ["float16", "float32", "float64", "bool", "complex64", "complex128"]
TYPES += [f"{sign}int{bits}" for sign in ["", "u"] for bits in [8, 16, 32, 64]]


class Arrays(Case):
    def test_an_array_knows_its_layout(self):
        made = self.device.zeros((3, 4), "int16")
        self.assertEqual((made.shape, made.strides, made.ndim), ((3, 4), (8, 2), 2))
        self.assertEqual((made.size, made.itemsize, made.nbytes, len(made)), (12, 2, 24, 3))
        self.assertEqual((made.dtype, made.device), ("int16", self.device))
        self.assertTrue(made.address and made.is_contiguous and not made.is_read_only)
        self.assertEqual(repr(made), f"<longshore.Array: 3 x 4 int16 on {self.device.name}>")
        self.assertEqual(self.device.empty(()).shape, ())

    def test_values_come_and_go_without_numpy(self):
        made = self.device.array(array.array("i", [1, 2, 3]))
        self.assertEqual((made.dtype, made.tolist()), ("int32", [1, 2, 3]))
        self.assertEqual(self.device.array(b"abc").tobytes(), b"abc")
        self.assertEqual(bytes(memoryview(made)), made.tobytes())
        self.assertEqual(self.device.full((2, 2), 7, int).tolist(), [[7, 7], [7, 7]])

    def test_slices_view_the_same_memory(self):
        made = self.device.array(array.array("i", range(12))).reshape(3, 4)
        self.assertEqual(made[1].tolist(), [4, 5, 6, 7])
        self.assertEqual(made[-1, -1].item(), 11)
        self.assertEqual(made[::2, 1:3].tolist(), [[1, 2], [9, 10]])
        self.assertEqual(made[::-1, ..., 0].tolist(), [8, 4, 0])
        self.assertEqual(made[5:].shape, (0, 4))
        made[0] = array.array("i", [9, 9, 9, 9])
        made[1:, 0] = array.array("i", [7, 8])
        self.assertEqual(made.tolist(), [[9, 9, 9, 9], [7, 5, 6, 7], [8, 9, 10, 11]])
        made[:, 1::2].fill(-1)
        self.assertEqual(made[2].tolist(), [8, -1, 10, -1])
        for key in [3, (0, 4), (0, 0, 0), (..., ...)]:
            with self.assertRaises(IndexError):
                made[key]
        with self.assertRaises(TypeError):
            made["a"]
        self.refuses(ValueError, "reshaping", lambda: made.reshape(5, -1))
        self.refuses(ValueError, "with gaps", lambda: made[:, ::2].reshape(-1))
        self.assertEqual(made[:, ::2].copy().reshape(-1).tolist(), [9, 9, 7, 6, 8, 10])

    def test_wrong_values_are_refused(self):
        made = self.device.zeros(4, "int8")
        for call, error, text in [
            (lambda: made.fill(128), OverflowError, "128 is beyond the range of int8"),
            (lambda: made.fill(1.5), TypeError, "a value of type float for int8"),
            (lambda: made.copy_from(array.array("b", [1])), ValueError, "1 values of int8 for"),
            (lambda: self.device.empty(-1), ValueError, "negative dimension"),
            (lambda: self.device.empty(2**62, "int64"), ValueError, "more than 2^63 - 1 bytes"),
            (lambda: self.device.empty("a"), TypeError, "a shape of type str"),
            (lambda: self.device.empty(3, "float33"), TypeError, "dtype 'float33'; expected one"),
            (lambda: longshore.Array(), TypeError, "argument"),
        ]:
            with self.subTest(text):
                self.refuses(error, text, call)
        error = self.refuses(longshore.Error, "", lambda: self.device.empty(2**60, "int8"))
        self.assertEqual(error.code, longshore.ErrorCode.OUT_OF_RESOURCES)

    def test_a_queue_copies_between_arrays(self):
        one, other = self.device.full(4, 3), self.device.zeros(4)
        with self.device.queue() as queue:
            queue.copy(other, one)
        self.assertEqual(other.tolist(), [3.0] * 4)
        queue = self.device.default_queue
        self.refuses(ValueError, "16 to 8 bytes", lambda: queue.copy(other[:2], one))

    def test_memory_outlives_its_array_while_work_uses_it(self):
        flag, out = self.device.zeros(1, "uint32"), self.device.zeros(1)
        view = memoryview(flag)
        held = self.device.zeros(1)
        self.kernel("await")(flag, held)
        del held
        others = [self.device.empty(1) for _ in range(100)]
        self.program["saxpy"][1, 1](1, 1, out, out)
        view[0] = 1
        self.assertTrue(self.device.default_queue.synchronize(timeout=60))
        self.assertEqual(len(others), 100)
        del view

    def test_a_view_keeps_memory_and_device(self):
        made = self.device.array(b"abc")
        view = memoryview(made)
        del made
        gc.collect()
        self.assertEqual(bytes(view), b"abc")
        self.refuses(BufferError, "while 1 arrays of other libraries view", self.device.close)
        del view
        self.device.close()

    def test_dtypes_have_many_names(self):
        for name in [None, "float32"]:
            self.assertEqual(self.device.empty(1, name).dtype, "float32")
        for given, name in [(float, "float64"), (int, "int64"), (bool, "bool")]:
            self.assertEqual(self.device.empty(1, given).dtype, name)


@needs_numpy
class Numpy(Case):
    def test_every_type_survives_the_trip(self):
        for name in TYPES:
            with self.subTest(name):
                values = numpy.arange(6).reshape(2, 3).astype(name)
                made = self.device.array(values)
                self.assertEqual(made.dtype, values.dtype)
                for back in [made.numpy(), numpy.asarray(made), numpy.from_dlpack(made)]:
                    self.assertEqual((back.dtype, back.tolist()), (values.dtype, values.tolist()))
                self.assertEqual(made.tolist(), values.tolist())
                self.assertEqual(self.device.full(2, 1, name).tolist(), [values.dtype.type(1)] * 2)

    def test_values_are_converted_where_asked(self):
        self.assertEqual(self.device.array([1, 2], "float32").dtype, "float32")
        self.assertEqual(self.device.array([[1.5]], numpy.float64).shape, (1, 1))
        swapped = numpy.array([1, 2], ">i4")
        self.assertEqual(self.device.array(swapped).tolist(), [1, 2])
        strided = numpy.arange(10)[::-2]
        self.assertEqual(self.device.array(strided).tolist(), strided.tolist())
        half = self.device.array([1.0, 1.00390625, 3e38], "bfloat16")
        self.assertEqual(half.numpy().tolist()[:2], [1.0, 1.0])
        made = self.device.zeros((2, 2))
        made[:, 0] = [1, 2]
        made[0] = 5
        self.assertEqual(made.tolist(), [[5, 5], [2, 0]])
        self.refuses(TypeError, "elements that arrays lack", lambda: self.device.array(["text"]))

    def test_halves_round_as_numpys(self):
        for value in [0.1, 65504, 6e-8, 2.9e-8, 1e-5, 2049, -0.0, float("inf"), 1 / 3]:
            with self.subTest(value):
                made = self.device.full(1, value, "float16").numpy()[0]
                self.assertEqual(made.tobytes(), numpy.float16(value).tobytes())
        with self.assertRaises(OverflowError):
            self.device.full(1, 65520, "float16")

    def test_a_view_sees_the_work_before_it_and_the_devices_memory(self):
        x, y = self.device.full(100, 1), self.device.zeros(100)
        for _ in range(10):
            self.program["saxpy"][1, 100](100, 1, x, y)
        view = numpy.asarray(y)
        self.assertEqual(view[0], 10)
        view[:] = 5
        self.assertEqual(y[99].item(), 5.0)
        self.assertEqual(view.__array_interface__["data"][0], y.address)

    def test_an_array_shares_numpys_memory(self):
        values = numpy.ones(8, "float32")
        shared = longshore.from_dlpack(values)
        self.assertEqual(shared.address, values.__array_interface__["data"][0])
        self.program["saxpy"][1, 8](8, 2, shared, shared)
        self.device.default_queue.synchronize()
        self.assertEqual(values.tolist(), [3.0] * 8)
        columns = longshore.from_dlpack(numpy.arange(6).reshape(2, 3).T)
        self.assertEqual(columns.tolist(), [[0, 3], [1, 4], [2, 5]])

    def test_read_only_memory_stays_so(self):
        values = numpy.ones(8, "float32")
        values.flags.writeable = False
        try:
            shared = longshore.from_dlpack(values)
        except BufferError:
            self.skipTest("this NumPy exports no read-only arrays")
        y = self.device.zeros(8)
        self.program["saxpy"][1, 8](8, 2, shared, y)
        self.assertEqual(y.tolist(), [2.0] * 8)
        saxpy = self.program["saxpy"][1, 8]
        self.refuses(TypeError, "read-only", lambda: saxpy(8, 2, y, shared))
        self.refuses(ValueError, "read-only", lambda: shared.fill(1))

    def test_shared_memory_lives_until_its_work_is_done(self):
        flag = self.device.zeros(1, "uint32")
        view = memoryview(flag)
        values = numpy.zeros(1, "float32")
        alive = weakref.ref(values)
        shared = longshore.from_dlpack(values)
        self.kernel("await")(flag, shared)
        del values, shared
        gc.collect()
        self.assertIsNotNone(alive())
        view[0] = 1
        self.device.default_queue.synchronize()
        longshore.from_dlpack(numpy.zeros(1))
        self.assertIsNone(alive())
        del view

    def test_dlpack_honours_its_options(self):
        made = self.device.full(3, 1)
        self.assertEqual(made.__dlpack_device__(), (1, 0))
        copy = numpy.from_dlpack(made[:])
        del copy
        self.assertIn("dltensor_versioned", repr(made.__dlpack__(max_version=(1, 0))))
        self.assertIn('"dltensor"', repr(made.__dlpack__()))
        self.assertIn("capsule", repr(made.__dlpack__(copy=True)))
        self.refuses(ValueError, "no streams", lambda: made.__dlpack__(stream=1))
        self.refuses(BufferError, "not asked for", lambda: made.__dlpack__(dl_device=(2, 0)))
        self.refuses(TypeError, "expected one with __dlpack__", lambda: longshore.from_dlpack(3))
        self.assertFalse(hasattr(made, "__cuda_array_interface__"))

    def test_torch_shares_memory_both_ways(self):
        if torch is None:
            self.skipTest("torch is not installed")
        made = self.device.zeros((2, 3))
        tensor = torch.from_dlpack(made)
        tensor += 4
        self.assertEqual(made.tolist(), [[4.0] * 3] * 2)
        tensor = torch.ones(8)
        shared = longshore.from_dlpack(tensor)
        self.program["saxpy"][1, 8](8, 2, shared, shared)
        self.device.default_queue.synchronize()
        self.assertEqual(tensor.tolist(), [3.0] * 8)
        brain = longshore.from_dlpack(torch.ones(2, dtype=torch.bfloat16))
        self.assertEqual((brain.dtype, brain.numpy().tolist()), ("bfloat16", [1.0, 1.0]))
