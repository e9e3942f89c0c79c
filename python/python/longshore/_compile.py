"""Compilation of kernels by `longshore cc`."""

from __future__ import annotations

import os

from ._errors import Error, ErrorCode

# The module `typing` has this constant, and takes long to import.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_SUFFIXES = {"c": ".c", "c++": ".cpp", "cuda": ".cu", "hip": ".hip"}


def command() -> str:
    """Returns the path of the command `longshore` of this package."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "longshore")
    if not os.access(path, os.X_OK):
        message = f"the package has no command: '{path}' is no program"
        hint = "install the wheel of longshore again, by pip"
        raise Error(ErrorCode.HOST_TOOL_NOT_FOUND, message, None, hint)
    return path


def compile(
    source: str,
    *,
    target: str = "host",
    language: str = "c",
    flags: Iterable[str] | None = None,
) -> bytes:
    """Compiles kernels to an image, by `longshore cc` and clang.

    `target` is a target of `longshore cc`, or several with commas between: "host",
    "nvptx64:sm_90", "amdgcn:gfx942", "spirv". `language` is "c", "c++", "cuda" or "hip". `flags`
    are options for clang.
    """
    import subprocess
    import tempfile

    if language not in _SUFFIXES:
        raise ValueError(f"language '{language}'; expected one of {', '.join(_SUFFIXES)}")
    if isinstance(flags, str):
        raise TypeError("flags is a list of options, as in flags=['-DN=4', '-ffast-math']")
    with tempfile.TemporaryDirectory(prefix="longshore-") as folder:
        # Messages of the compiler have this name.
        name = "source" + _SUFFIXES[language]
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(source)
        line = [command(), "cc", name, "-o", "source.img", "--target", target]
        line += ["--", *flags] if flags else []
        ran = subprocess.run(line, cwd=folder, capture_output=True, text=True, check=False)
        if ran.returncode != 0:
            raise _failure(ran.stderr)
        with open(os.path.join(folder, "source.img"), "rb") as image:
            return image.read()


def _failure(output: str) -> Error:
    """Returns the exception for what `longshore cc` has printed."""
    lines: list[str] = []
    hints: list[str] = []
    for line in output.strip().splitlines():
        (hints if line.startswith("hint: ") else lines).append(line)
    hint = "; ".join(line[len("hint: ") :] for line in hints) or None
    message = "\n".join(lines).removeprefix("error: ") or "longshore cc failed without a message"
    is_missing = message.endswith("on PATH")
    code = ErrorCode.HOST_TOOL_NOT_FOUND if is_missing else ErrorCode.COMPILE_FAILURE
    return Error(code, message, None, hint)


def _compile_for(
    source: str, target: str, language: str, flags: Iterable[str] | None
) -> bytes:
    """Compiles for a device: the positional form of `compile`."""
    return compile(source, target=target, language=language, flags=flags)
