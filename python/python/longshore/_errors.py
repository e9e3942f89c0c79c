"""The exception of the library."""

from __future__ import annotations

import enum


class ErrorCode(enum.IntEnum):
    """The kind of an error. The values equal LLVM's `ol_errc_t`."""

    __module__ = "longshore"

    UNKNOWN = 1
    HOST_IO = 2
    INVALID_BINARY = 3
    INVALID_NULL_POINTER = 4
    INVALID_ARGUMENT = 5
    NOT_FOUND = 6
    OUT_OF_RESOURCES = 7
    INVALID_SIZE = 8
    INVALID_ENUMERATION = 9
    HOST_TOOL_NOT_FOUND = 10
    INVALID_VALUE = 11
    UNIMPLEMENTED = 12
    UNSUPPORTED = 13
    ASSEMBLE_FAILURE = 14
    COMPILE_FAILURE = 15
    LINK_FAILURE = 16
    BACKEND_FAILURE = 17
    UNINITIALIZED = 18
    INVALID_NULL_HANDLE = 19
    INVALID_PLATFORM = 20
    INVALID_DEVICE = 21
    INVALID_QUEUE = 22
    INVALID_EVENT = 23
    SYMBOL_KIND = 24


_HINTS = {
    ErrorCode.INVALID_BINARY: (
        "`longshore inspect IMAGE` shows the image's format and architecture, `longshore devices` "
        "the devices' architectures"
    ),
    ErrorCode.LINK_FAILURE: "link the image with the libraries that define its undefined symbols",
    ErrorCode.OUT_OF_RESOURCES: "use smaller arrays, or end other programs that use the device",
    ErrorCode.HOST_TOOL_NOT_FOUND: "install the tool, or add its folder to PATH",
    ErrorCode.SYMBOL_KIND: "Program.kernels and Program.variables list the symbols of each kind",
    ErrorCode.UNINITIALIZED: "use objects inside the `with` blocks of their device and program",
    ErrorCode.BACKEND_FAILURE: "LONGSHORE_LOG=debug shows the log of the plugin and the driver",
}


class Error(Exception):
    """An error of the library, a driver or a kernel.

    `code` is the kind of the error, `message` names the object, the wrong value and the expected
    one, and `hint`, if there is one, the remedy. `vendor` has name and number of the driver's own
    error.
    """

    __module__ = "longshore"

    code: ErrorCode
    message: str
    vendor: tuple[str, int] | None
    hint: str | None

    def __init__(
        self,
        code: int,
        message: str,
        vendor: tuple[str, int] | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(code, message, vendor, hint)
        try:
            self.code = ErrorCode(code)
        except ValueError:
            self.code = ErrorCode.UNKNOWN
        self.message = message
        self.vendor = vendor
        self.hint = _HINTS.get(self.code) if hint is None else hint

    def __str__(self) -> str:
        vendor = "" if self.vendor is None else f" [{self.vendor[0]} {self.vendor[1]}]"
        hint = "" if self.hint is None else f"\nhint: {self.hint}"
        return f"{self.message}{vendor}{hint}"
