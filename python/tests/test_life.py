"""Lives of objects: closing, threads, forks, signals, the interpreter's exit."""

import gc
import os
import signal
import sys
import threading
import time
import unittest

import longshore
from support import SOURCE, Case, image, need_clang, run

PRELUDE = f"""
import os, signal, sys, threading, time, warnings
warnings.simplefilter("ignore", DeprecationWarning)
import longshore
device = longshore.device("host")
program = device.load(open(sys.argv[1], "rb").read())
flag, out = device.zeros(1, "uint32"), device.zeros(1)
view = memoryview(flag)
"""


def resources():
    """Returns the process's resident bytes and the number of its open files and mappings."""
    with open("/proc/self/statm") as file:
        resident = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    with open("/proc/self/maps") as file:
        mappings = sum(1 for _ in file)
    return resident, len(os.listdir("/proc/self/fd")), mappings


class Life(Case):
    def script(self, text):
        """Runs a script behind the prelude, and returns the finished process."""
        import tempfile

        with tempfile.NamedTemporaryFile(suffix=".img") as file:
            file.write(image())
            file.flush()
            return run(PRELUDE + text, file.name)

    def test_closed_objects_refuse_with_code_and_hint(self):
        y = self.device.zeros(8)
        with self.device as device, device.load(image()) as program, device.queue() as queue:
            saxpy = program["saxpy"][1, 8]
        again = longshore.device("host")
        fresh = again.queue()
        for call in [
            lambda: saxpy(8, 1, y, y),
            lambda: saxpy(8, 1, y, y, queue=queue),
            queue.synchronize,
            queue.record,
            y.tobytes,
            lambda: device.queue(),
            lambda: device.load(image()),
            lambda: program["saxpy"],
        ]:
            error = self.refuses(longshore.Error, "", call)
            self.assertEqual(error.code, longshore.ErrorCode.UNINITIALIZED)
            self.assertTrue(error.hint and error.hint in str(error))
        with self.assertRaises(longshore.Error):
            memoryview(y)
        self.refuses(TypeError, "closed", lambda: again.load(image())["saxpy"][1, 8](8, 1, y, y))
        self.assertTrue(fresh.synchronize())
        device.close()
        program.__exit__(None, None, None)

    def test_an_unloaded_program_refuses(self):
        kernel = self.kernel("count")
        self.program.unload()
        error = self.refuses(longshore.Error, "", lambda: kernel(1))
        self.assertEqual(error.code, longshore.ErrorCode.UNINITIALIZED)
        self.assertIn("unloaded", repr(self.program))

    def test_a_kernel_keeps_its_program(self):
        kernel = self.device.load(image())["saxpy"]
        gc.collect()
        x, y = self.device.full(4, 1), self.device.zeros(4)
        kernel[1, 4](4, 1, x, y)
        self.assertEqual(y.tolist(), [1.0] * 4)

    def test_many_lives_leave_nothing_behind(self):
        rounds = int(os.environ.get("LONGSHORE_ROUNDS", "1000"))

        def live(count):
            for _ in range(count):
                with self.device.load(image()) as program, self.device.queue() as queue:
                    x, y = self.device.full(64, 1), self.device.zeros(64)
                    program["saxpy"][1, 64](64, 1, x, y, queue=queue)
                    self.assertEqual(memoryview(y)[63], 1.0)

        live(50)
        before = resources()
        live(rounds)
        after = resources()
        self.assertLess(after[0] - before[0], 4 << 20)
        self.assertEqual(after[1], before[1])
        self.assertLess(after[2] - before[2], 16)

    def test_threads_share_everything(self):
        errors = []
        x = self.device.full(64, 1)
        launcher = self.program["saxpy"][1, 64]

        def work():
            try:
                for _ in range(50):
                    y = self.device.zeros(64)
                    with self.device.queue() as queue:
                        launcher(64, 1, x, y, queue=queue)
                        launcher(64, 1, x, y, queue=queue, wait=True)
                    assert y.tolist() == [2.0] * 64
                    self.device.load(image()).unload()
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(errors, [])

    def test_other_threads_run_during_a_wait(self):
        flag, out = self.device.zeros(1, "uint32"), self.device.zeros(1)
        view = memoryview(flag)
        queue = self.device.queue()
        self.kernel("await")(flag, out, queue=queue)
        waits = [lambda: queue.synchronize(), lambda: out.tobytes(), queue.record().synchronize]
        threads = [threading.Thread(target=wait) for wait in waits]
        for thread in threads:
            thread.start()
        self.assertFalse(queue.synchronize(timeout=0.05))
        self.assertFalse(queue.is_idle)
        view[0] = 1
        for thread in threads:
            thread.join(60)
            self.assertFalse(thread.is_alive())
        self.assertEqual(out.tolist(), [1.0])
        del view

    def test_a_read_waits_for_a_slow_queue_beside_a_busy_one(self):
        hold = self.kernel("hold")
        for _ in range(10):
            flag, out = self.device.zeros(1, "uint32"), self.device.zeros(1)
            view = memoryview(flag)
            slow, busy = self.device.queue(), self.device.queue()
            self.kernel("await")(flag, out, queue=slow)
            stop = threading.Event()

            def keep_busy():
                while not stop.is_set():
                    hold(1, flag, queue=busy)

            workers = [threading.Thread(target=keep_busy) for _ in range(3)]
            timer = threading.Timer(0.05, lambda: view.__setitem__(0, 1))
            for thread in [*workers, timer]:
                thread.start()
            flag.tobytes()
            seen = view[0]
            stop.set()
            for thread in [*workers, timer]:
                thread.join()
            self.assertEqual(seen, 1)
            self.assertEqual(out.tolist(), [1.0])
            del view

    def test_queues_that_come_and_go_leave_nothing_behind(self):
        x, y = self.device.full(64, 1), self.device.zeros(64)
        saxpy = self.program["saxpy"][1, 64]

        def live(count):
            for _ in range(count):
                queue = self.device.queue()
                saxpy(64, 1, x, y, queue=queue)
                queue.synchronize()

        live(2000)
        before = resources()
        live(10000)
        after = resources()
        self.assertLess(after[0] - before[0], 1 << 20)
        self.assertEqual(after[1], before[1])

    def test_other_threads_run_while_a_program_is_dropped(self):
        flag, out = self.device.zeros(1, "uint32"), self.device.zeros(1)
        view = memoryview(flag)
        kernel = self.device.load(image())["await"]
        kernel[1, 1](flag, out)
        timer = threading.Timer(0.1, lambda: view.__setitem__(0, 1))
        timer.start()
        del kernel
        gc.collect()
        self.assertEqual(view[0], 1)
        timer.join()
        self.assertEqual(out.tolist(), [1.0])

    def test_an_interrupt_ends_a_wait_and_not_the_work(self):
        flag, out = self.device.zeros(1, "uint32"), self.device.zeros(1)
        view = memoryview(flag)
        queue = self.device.queue()
        self.kernel("await")(flag, out, queue=queue)
        before = signal.signal(signal.SIGALRM, signal.default_int_handler)
        try:
            for wait in [queue.synchronize, queue.record().synchronize, out.tobytes, queue.close,
                         self.program.unload, self.device.close]:
                signal.setitimer(signal.ITIMER_REAL, 0.05)
                if wait == self.device.close:
                    # The view refuses first.
                    self.assertRaises(BufferError, wait)
                    signal.setitimer(signal.ITIMER_REAL, 0)
                else:
                    self.assertRaises(KeyboardInterrupt, wait)
                if wait == queue.close:
                    queue = self.device.default_queue
        finally:
            signal.signal(signal.SIGALRM, before)
        self.assertEqual(view[0], 0)
        view[0] = 1
        self.assertEqual(out.tolist(), [1.0])
        del view
        x, y = self.device.full(4, 1), self.device.zeros(4)
        self.program["saxpy"][1, 4](4, 1, x, y)
        self.assertEqual(y.tolist(), [1.0] * 4)

    def test_a_forked_child_gets_an_error_and_ends(self):
        done = self.script("""
program["await"][1, 1](flag, out)
child = os.fork()
if child == 0:
    for call in [lambda: device.default_queue.synchronize(), longshore.devices, out.tobytes,
                 lambda: program["count"], lambda: program["await"][1, 1](flag, out)]:
        try:
            call()
            print("no error")
        except longshore.Error as error:
            assert error.code == longshore.ErrorCode.UNINITIALIZED and "fork" in str(error), error
    del program, out
    print("child", flush=True)
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
view[0] = 1
print("parent", out.tolist())
""")
        self.assertEqual((done.stderr, done.stdout), ("", "child\nparent [1.0]\n"))

    def test_a_fork_before_the_first_use_is_free(self):
        done = run("""
import os, longshore
child = os.fork()
assert longshore.devices()
if child:
    assert os.waitpid(child, 0)[1] == 0
    print("both")
""")
        self.assertEqual((done.stderr, done.stdout), ("", "both\n"))

    def test_processes_are_spawned(self):
        done = run("""
import multiprocessing, longshore
if __name__ == "__main__":
    longshore.devices()
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.apply(len, ([1],)))
""")
        self.assertEqual((done.stderr, done.stdout), ("", "1\n"))

    def test_the_exit_waits_for_queued_work(self):
        done = self.script("""
for _ in range(100):
    program["saxpy"][1, 1](1, 1.0, out, out)
threading.Timer(0.2, lambda: view.__setitem__(0, 1)).start()
program["await"][1, 1](flag, out)
""")
        self.assertEqual((done.stderr, done.returncode), ("", 0))

    def test_an_interrupt_ends_an_exit_that_waits(self):
        done = self.script("""
# Programs in the background of a shell ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)
program["await"][1, 1](flag, out)
del view
timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
timer.daemon = True
timer.start()
""")
        self.assertIn("KeyboardInterrupt", done.stderr)

    def test_a_thread_that_computes_at_exit_does_no_harm(self):
        done = self.script("""
def work():
    while True:
        program["saxpy"][1, 1](1, 1.0, out, out)
        out.tobytes()
threading.Thread(target=work, daemon=True).start()
time.sleep(0.1)
del view
""")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_the_import_brings_no_numpy(self):
        done = run("import longshore, sys; print('numpy' in sys.modules, 'asyncio' in sys.modules)")
        self.assertEqual(done.stdout, "False False\n")


class Failures(Case):
    @unittest.skipIf(sys.platform != "linux", "signals of Linux")
    def test_a_faulting_kernel_is_an_error(self):
        need_clang()
        source = """
#include <longshore_device.h>
LONGSHORE_KERNEL(fault, (uint64_t *at)) { *(volatile uint64_t *)16 = 1; }
"""
        program = self.device.load(source=source)
        program["fault"][1, 1](None)
        error = self.refuses(longshore.Error, "fault", self.device.default_queue.synchronize)
        self.assertEqual(error.code, longshore.ErrorCode.BACKEND_FAILURE)
        self.assertTrue(self.device.default_queue.synchronize())

    def test_errors_have_codes_messages_and_hints(self):
        error = self.refuses(longshore.Error, "ELF", lambda: self.device.load(b"no image"))
        self.assertEqual(error.code, longshore.ErrorCode.INVALID_BINARY)
        self.assertIn("longshore inspect", error.hint)
        self.refuses(longshore.Error, "/no/such.img", lambda: self.device.load("/no/such.img"))
        self.refuses(TypeError, "an image of type int", lambda: self.device.load(3))
        self.refuses(TypeError, "and not both", self.device.load)
        self.refuses(longshore.Error, "cuda", lambda: longshore.device("cuda"))

    def test_a_source_that_clang_refuses_is_shown(self):
        need_clang()
        error = self.refuses(
            longshore.Error, "source.c:1:", lambda: self.device.load(source="int f( {")
        )
        self.assertEqual(error.code, longshore.ErrorCode.COMPILE_FAILURE)
        with self.assertRaises(ValueError):
            self.device.load(source=SOURCE, language="rust")

    def test_sources_in_cuda_need_no_toolkit(self):
        need_clang()
        source = "__global__ void scale(int n, float *x) { if (threadIdx.x < n) x[threadIdx.x] *= 2; }"
        x = self.device.full(4, 3)
        self.device.load(source=source, language="cuda", flags=["-O3"])["scale"][1, 4](4, x)
        self.assertEqual(x.tolist(), [6.0] * 4)
