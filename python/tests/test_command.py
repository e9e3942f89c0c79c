"""The command of the package, and its documentation."""

import doctest
import os
import subprocess
import sys
import unittest

import longshore
from support import Case, need_clang, numpy

# The guide of the package, where the repository is at hand.
PAGE = os.environ.get("LONGSHORE_TEST_PAGE")
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class Command(unittest.TestCase):
    def command(self, *arguments):
        """Runs the command as a module."""
        line = [sys.executable, "-m", "longshore", *arguments]
        return subprocess.run(line, capture_output=True, text=True)

    def test_the_module_runs_the_command(self):
        done = self.command("devices")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("host:0", done.stdout)
        self.assertEqual(self.command("frobnicate").returncode, 2)

    def test_the_command_finds_the_plugins_of_the_package(self):
        done = self.command("plugins")
        for path, _, _ in longshore.plugins():
            self.assertIn(str(path), done.stdout)

    def test_the_package_isolates_plugins(self):
        script = "import longshore; print(longshore.plugins()[0][2])"
        environment = {**os.environ, "LONGSHORE_ISOLATE": "all"}
        line = [sys.executable, "-c", script]
        done = subprocess.run(line, capture_output=True, text=True, env=environment)
        self.assertTrue(done.stdout.startswith("loaded") or "isolated" in done.stdout, done)


@unittest.skipIf(numpy is None, "numpy is not installed")
class Documentation(Case):
    def setUp(self):
        need_clang()
        super().setUp()

    def test_the_packages_examples_run(self):
        failed, tried = doctest.testmod(longshore, optionflags=OPTIONS)
        self.assertEqual(failed, 0)
        self.assertGreater(tried, 4)

    @unittest.skipIf(PAGE is None, "LONGSHORE_TEST_PAGE names no page")
    def test_the_guides_examples_run(self):
        failed, tried = doctest.testfile(PAGE, module_relative=False, optionflags=OPTIONS)
        self.assertEqual(failed, 0)
        self.assertGreater(tried, 20)
