"""gdb commands for kernels on Longshore's CPU backend.

`longshore run --gdb` loads this file. For another program, set LONGSHORE_HOST_DEBUG=gdb and load the
file by `source`. Kernels must have debug information; only code without optimization (-O0) keeps
all variables.

    longshore kernel NAME              go to the first item of this kernel
    longshore items                    the items that run or wait, in each thread
    longshore item GROUP ITEM          go to this item: X, X,Y or X,Y,Z each
    longshore private NAME [ITEM]      print an item's LONGSHORE_PRIVATE variable
"""

import gdb
from gdb.unwinder import Unwinder, register_unwinder

# Functions that the header makes of kernels in C, and the compiler of kernels in CUDA and HIP.
BODY = "__longshore_body_"
ITEM = "__longshore_item_"
RUN = "longshore_run_"
HEADERS = ("longshore_device.h", "longshore_cuda.h")
HEADER_FOLDERS = ("/longshore_cuda/", "/longshore_gpu/", "/longshore_math/")
# Registers with an item's group and numbers, where the function of one item begins.
PARAMETERS = {
    "i386:x86-64": ["rsi", "edx", "ecx", "r8d"],
    "aarch64": ["x1", "w2", "w3", "w4"],
}
# Offset of the group's numbers behind that pointer.
GROUP_AT = 12
# The registers that the CPU backend stores for a waiting item, in their order.
REGISTERS = {
    "i386:x86-64": ["rip", "rsp", "rbp", "rbx", "r12", "r13", "r14", "r15"],
    "aarch64": ["pc", "sp", "x29"] + ["x%d" % number for number in range(19, 29)],
}
WAITS = {
    1: "a barrier",
    2: "a sub-group operation",
    3: "a barrier of the grid",
    4: "a barrier",
    5: "a sub-group operation",
}
# Most frames between an item's innermost frame and its kernel.
MOST_FRAMES = 64
# Most waiting items whose place is determined.
MOST_PLACES = 64


def triple(text):
    """Returns the three coordinates of a text such as 3, 3,0 or (3, 0, 0)."""
    numbers = [int(word, 0) for word in text.strip("() ").replace(" ", "").split(",")]
    if not 1 <= len(numbers) <= 3:
        raise ValueError(text)
    return tuple(numbers + [0] * (3 - len(numbers)))


def written(numbers):
    return "(%d, %d, %d)" % tuple(numbers)


def numbers_of(value):
    return tuple(int(value[index]) for index in range(3))


class Item:
    """The item or the group of a frame."""

    def __init__(self, frame, kernel, shown, self_, is_item, is_of_group_kernel):
        self.frame, self.kernel, self.shown = frame, kernel, shown
        self.is_of_group_kernel = is_of_group_kernel
        self.group = numbers_of(self_["group"])
        self.items = numbers_of(self_["items"])
        self.item = numbers_of(self_["item"]) if is_item else None

    def __str__(self):
        text = "kernel %s, group %s" % (self.shown, written(self.group))
        return text + (", item %s" % written(self.item) if self.item is not None else "")


def check_program():
    if gdb.selected_thread() is None:
        raise gdb.GdbError("The program does not run")


def variable(frame, name):
    """Returns a variable of a frame; None if the frame lacks it or its value was optimized out."""
    try:
        value = frame.read_var(name)
        return None if value.is_optimized_out else value
    except (ValueError, gdb.error):
        return None


def self_of(frame):
    """Returns the argument `longshore_self` of a frame's function, which its blocks may hide."""
    try:
        block = frame.block()
    except RuntimeError:
        return None
    while block is not None and block.function is None:
        block = block.superblock
    for symbol in block or ():
        if symbol.is_argument and symbol.name == "longshore_self":
            return variable(frame, symbol)
    return None


def tag_of_target(pointer):
    return pointer.type.target().unqualified().tag


def frames(frame):
    for _ in range(MOST_FRAMES):
        if frame is None or not frame.is_valid():
            return
        yield frame
        try:
            frame = frame.older()
        except gdb.error:
            return


def file_of(frame):
    table = frame.find_sal().symtab
    return table.filename if table is not None else ""


def is_of_header(file):
    return file.endswith(HEADERS) or any(folder in file for folder in HEADER_FOLDERS)


def address_of(symbol):
    """Returns the address of a function by its symbol; None if no image has it."""
    try:
        return int(gdb.parse_and_eval("(unsigned long)&'%s'" % symbol))
    except gdb.error:
        return None


def architecture():
    return gdb.selected_inferior().architecture().name()


def place_of(frame):
    line = frame.find_sal()
    if line.symtab is None:
        return "%#x" % frame.pc()
    return "%s:%d" % (line.symtab.filename.rsplit("/", 1)[-1], line.line)


def kernel_of(frame):
    """Returns the kernel's symbol if the frame is that of a kernel's body."""
    return kernel_of_function(frame.function())


def kernel_of_function(function):
    name = function.linkage_name or function.name if function is not None else ""
    if name.startswith(BODY):
        return name[len(BODY):]
    return name if KERNEL.is_of_cuda(name) else None


def item_of(frame):
    """Returns the item that runs in a frame or in its callers; None outside kernels."""
    found = kernel = shown = at = None
    is_of_group_kernel = False
    for current in frames(frame):
        if at is None and file_of(current) and not is_of_header(file_of(current)):
            at = current
        if found is None:
            found = own_item(variable(current, "longshore_self"))
        kernel = kernel_of(current)
        if kernel is not None:
            shown = current.name() if KERNEL.is_of_cuda(kernel) else kernel
            own = self_of(current)
            is_of_group_kernel = own is not None and tag_of_target(own) == "longshore_group"
            break
    if found is None or at is None:
        return None
    value, is_item = found
    return Item(at, kernel or "?", shown or "?", value, is_item, is_of_group_kernel)


def own_item(value):
    """Returns the item or group of a variable `longshore_self`, and whether it is an item."""
    try:
        if value is None:
            return None
        if value.type.code == gdb.TYPE_CODE_PTR:
            value = value.dereference()
        tag = value.type.unqualified().tag
        if tag not in ("longshore_self", "longshore_group"):
            return None
        is_item = tag == "longshore_self"
        value = value if is_item else value["self"]
        value.fetch_lazy()
        return value, is_item
    except gdb.error:
        return None


class WaitingUnwinder(Unwinder):
    """Makes a waiting item the caller of the selected thread's innermost function."""

    def __init__(self):
        super().__init__("longshore waiting items")
        self.registers, self.thread, self.innermost = None, None, None

    def show(self, registers):
        """Shows an item with these registers; None for the thread's own frames."""
        self.registers, self.thread = None, gdb.selected_thread()
        gdb.invalidate_cached_frames()
        self.innermost = gdb.newest_frame().pc()
        self.registers = registers
        gdb.invalidate_cached_frames()

    def __call__(self, pending):
        if self.registers is None or gdb.selected_thread() != self.thread:
            return None
        names = REGISTERS[pending.architecture().name()]
        # Inlined functions have frames of their own, which have no unwinder.
        if int(pending.read_register(names[0])) != self.innermost:
            return None

        class Id:
            pass

        values = dict(zip(names, self.registers))
        stack = values.get("rsp", values.get("sp"))
        Id.sp, Id.pc = gdb.Value(stack - 64), gdb.Value(values[names[0]])
        information = pending.create_unwind_info(Id)
        pointer = gdb.lookup_type("unsigned long")
        for name, value in values.items():
            information.add_saved_register(name, gdb.Value(value).cast(pointer))
        return information


UNWINDER = WaitingUnwinder()
register_unwinder(None, UNWINDER, replace=True)
gdb.events.cont.connect(lambda event: setattr(UNWINDER, "registers", None))


def word(address):
    return int.from_bytes(gdb.selected_inferior().read_memory(address, 8).tobytes(), "little")


class Waiting:
    """An item that waits on its own stack."""

    def __init__(self, item, wait, registers):
        self.item, self.wait, self.registers = item, wait, registers


def waiting_items():
    """Returns the items that wait for others, by the list of the CPU backend."""
    try:
        table = int(gdb.parse_and_eval("(unsigned long)&longshore_waiting_groups"))
    except gdb.error:
        return
    entry, item_bytes, wait_at, registers_at = (word(table + 8 * index) for index in range(4))
    count = len(REGISTERS[architecture()])
    while entry != 0:
        next_entry, _, items, number = (word(entry + 8 * index) for index in range(4))
        for item in range(items, items + number * item_bytes, item_bytes):
            wait = word(item + wait_at)
            if wait in WAITS:
                registers = [word(item + registers_at + 8 * index) for index in range(count)]
                yield Waiting(item, wait, registers)
        entry = next_entry


def shown_frame(waiting):
    """Selects a waiting item's stack, and returns its item."""
    UNWINDER.show(waiting.registers)
    found = (frame for frame in frames(gdb.newest_frame()) if frame.pc() == waiting.registers[0])
    return item_of(next(found, None))


class Longshore(gdb.Command):
    """Commands for kernels on Longshore's CPU backend."""

    def __init__(self):
        super().__init__("longshore", gdb.COMMAND_DATA, prefix=True)


class Items(gdb.Command):
    """Show the items that run or wait, in each thread."""

    def __init__(self):
        super().__init__("longshore items", gdb.COMMAND_STATUS)

    def invoke(self, argument, from_tty):
        check_program()
        UNWINDER.show(None)
        selected, frame = gdb.selected_thread(), gdb.selected_frame()
        found = False
        for thread in sorted(gdb.selected_inferior().threads(), key=lambda thread: thread.num):
            thread.switch()
            item = item_of(gdb.newest_frame())
            if item is not None:
                found = True
                mark = "*" if thread.num == selected.num else " "
                place = place_of(item.frame)
                print("%s thread %d (%s): %s, at %s" % (mark, thread.num, thread.name, item, place))
        selected.switch()
        found |= self.show_waiting()
        UNWINDER.show(None)
        if frame.is_valid():
            frame.select()
        if not found:
            print("No thread runs an item of a kernel with debug information.")

    def show_waiting(self):
        all_waiting = list(waiting_items())
        for waiting in all_waiting[:MOST_PLACES]:
            item = shown_frame(waiting)
            if item is not None:
                reason = WAITS[waiting.wait]
                print("  waiting for %s: %s, at %s" % (reason, item, place_of(item.frame)))
        if len(all_waiting) > MOST_PLACES:
            print("  and %d further waiting items" % (len(all_waiting) - MOST_PLACES))
        return bool(all_waiting)


class CountingBreakpoint(gdb.Breakpoint):
    """A breakpoint that remembers whether the program reached it."""

    def __init__(self, place):
        super().__init__(place, internal=True)
        self.silent = True
        self.is_hit = False

    def stop(self):
        self.is_hit = True
        return True


class ItemBreakpoint(CountingBreakpoint):
    """A stop where an item starts: at its kernel's body, or in the loop of LONGSHORE_ITEMS."""

    def __init__(self, place, group, item):
        super().__init__(place)
        self.wanted, self.is_unknown = (group, item), False

    def stop(self):
        found = starting_item(gdb.newest_frame())
        self.is_hit = found == self.wanted
        self.is_unknown = found is None
        return self.is_hit or self.is_unknown


class ItemOfCudaBreakpoint(CountingBreakpoint):
    """A stop at the first instruction of an item of a kernel in CUDA or HIP."""

    def __init__(self, symbol, group, item):
        super().__init__("*%d" % address_of(ITEM + symbol))
        self.wanted, self.is_unknown = (group, item), False

    def stop(self):
        frame = gdb.newest_frame()
        group, *item = (int(frame.read_register(name)) for name in PARAMETERS[architecture()])
        words = gdb.selected_inferior().read_memory(group + GROUP_AT, 12).tobytes()
        group = tuple(int.from_bytes(words[at : at + 4], "little") for at in (0, 4, 8))
        self.is_hit = (group, tuple(item)) == self.wanted
        return self.is_hit


def starting_item(frame):
    """Returns group and item of the loop whose next item starts in a frame."""
    for current in list(frames(frame))[:4]:
        owners = [variable(current, name) for name in ("self", "group")]
        for prefix, owner in [("", value) for value in owners] + [("longshore_", self_of(current))]:
            item = [variable(current, prefix + name) for name in "xyz"]
            owner = group_of(owner) if None not in item else None
            if owner is not None:
                return owner, tuple(int(at) for at in item)
    return None


def group_of(value):
    """Returns the group's number of a value of the header's types; None for other values."""
    try:
        if value is not None and value.type.code == gdb.TYPE_CODE_PTR:
            value = value.dereference()
        tag = value.type.unqualified().tag if value is not None else None
        if tag == "longshore_group":
            value, tag = value["self"], "longshore_self"
        return numbers_of(value["group"]) if tag == "longshore_self" else None
    except gdb.MemoryError:
        return None


def enter_inlined(leave=False):
    """Enters the inlined function at which the program has stopped, or leaves it again."""
    locking = gdb.parameter("scheduler-locking")
    gdb.execute("set scheduler-locking on")
    try:
        gdb.execute("step", to_string=True)
        if leave:
            gdb.execute("finish", to_string=True)
    finally:
        gdb.execute("set scheduler-locking " + locking)


def begin_item():
    """Goes from the first instruction of an item in CUDA or HIP to its first line."""
    locking = gdb.parameter("scheduler-locking")
    gdb.execute("set scheduler-locking on")
    try:
        gdb.execute("next", to_string=True)
    finally:
        gdb.execute("set scheduler-locking " + locking)


def show_item():
    item = item_of(gdb.newest_frame())
    if item is not None:
        print("[%s]" % item)
    gdb.execute("frame")


class GoToItem(gdb.Command):
    """Go to an item: longshore item GROUP ITEM, such as 7 104 or 7,0,0 104,0,0.

An item that waits for others is selected: `backtrace`, `up` and `info locals` show it. Otherwise
the program goes on until the item starts."""

    def __init__(self):
        super().__init__("longshore item", gdb.COMMAND_RUNNING)

    def invoke(self, argument, from_tty):
        words = gdb.string_to_argv(argument)
        try:
            group, item = (triple(word) for word in words)
        except ValueError:
            raise gdb.GdbError("Usage: longshore item GROUP ITEM, such as 7 104 or 7,0,0 104,0,0")
        check_program()
        if not self.select_waiting(group, item):
            self.run_to(group, item)

    def select_waiting(self, group, item):
        for waiting in waiting_items():
            found = shown_frame(waiting)
            if found is not None and (found.group, found.item) == (group, item):
                print("Waiting for %s: %s" % (WAITS[waiting.wait], found))
                found.frame.select()
                gdb.execute("frame")
                return True
        UNWINDER.show(None)
        return False

    def run_to(self, group, item):
        current = item_of(gdb.selected_frame())
        name = KERNEL.name if current is None or current.kernel == "?" else current.kernel
        if name is None:
            raise gdb.GdbError("No kernel: go to one by `longshore kernel NAME` first")
        if current is not None and not all(at < size for at, size in zip(item, current.items)):
            last = written(size - 1 for size in current.items)
            raise gdb.GdbError("The group has items up to %s" % last)
        is_group = KERNEL.kinds.get(name, False) if current is None else current.is_of_group_kernel
        is_of_cuda = KERNEL.is_of_cuda(name)
        if is_of_cuda and not KERNEL.has_function_of_items(name):
            raise gdb.GdbError("The items have no function of their own: compile with -g -O0")
        if is_of_cuda:
            stop = ItemOfCudaBreakpoint(name, group, item)
        else:
            stop = ItemBreakpoint("longshore_item_" if is_group else BODY + name, group, item)
        if stop.pending:
            stop.delete()
            raise gdb.GdbError("The items have no function of their own: compile with -g -O0")
        try:
            said = gdb.execute("continue", to_string=True)
        finally:
            if stop.is_valid():
                stop.delete()
        if stop.is_unknown:
            raise gdb.GdbError("The items' numbers were optimized out: compile with -g -O0")
        if not stop.is_hit:
            print(said, end="")
            if gdb.selected_inferior().pid == 0:
                print("Item %s of group %s did not start." % (written(item), written(group)))
            return
        if is_of_cuda:
            begin_item()
        else:
            enter_inlined(leave=is_group)
        show_item()


class Private(gdb.Command):
    """Print an item's LONGSHORE_PRIVATE variable: longshore private NAME [ITEM].

Without ITEM, the variable of the item of the selected frame."""

    def __init__(self):
        super().__init__("longshore private", gdb.COMMAND_DATA)

    def invoke(self, argument, from_tty):
        words = gdb.string_to_argv(argument)
        if not 1 <= len(words) <= 2:
            raise gdb.GdbError("Usage: longshore private NAME [ITEM]")
        check_program()
        current = item_of(gdb.selected_frame())
        if current is None:
            raise gdb.GdbError("The selected frame is in no kernel with debug information")
        try:
            item = triple(words[1]) if len(words) == 2 else current.item
        except ValueError:
            raise gdb.GdbError("Usage: longshore private NAME [ITEM], such as sum 7 or sum 7,0,0")
        if item is None:
            raise gdb.GdbError("The group runs, and none of its items: name an item")
        width, height, depth = current.items
        if not all(0 <= at < size for at, size in zip(item, current.items)):
            raise gdb.GdbError("The group has items up to %s" % written((width - 1, height - 1, depth - 1)))
        index = (item[2] * height + item[1]) * width + item[0]
        value = variable(gdb.selected_frame(), words[0])
        if value is None:
            raise gdb.GdbError("The selected frame has no value of a variable '%s'" % words[0])
        code = value.type.strip_typedefs().code
        if code != gdb.TYPE_CODE_ARRAY:
            raise gdb.GdbError("%s is no LONGSHORE_PRIVATE variable" % words[0])
        element = value.type.strip_typedefs().target().strip_typedefs()
        if element.code == gdb.TYPE_CODE_ARRAY:
            first, last = value.type.strip_typedefs().range()
            values = [value[number][index] for number in range(first, last + 1)]
            print("%s of item %s: {%s}" % (words[0], written(item), ", ".join(map(str, values))))
        else:
            print("%s of item %s: %s" % (words[0], written(item), value[index]))


class Kernel(gdb.Command):
    """Go to the first item of a kernel: longshore kernel NAME.

Starts the program if it does not run yet. The image need not be loaded yet."""

    def __init__(self):
        super().__init__("longshore kernel", gdb.COMMAND_RUNNING)
        # The last kernel, and whether each kernel is a group kernel, by its name.
        self.name, self.kinds = None, {}

    def invoke(self, argument, from_tty):
        words = gdb.string_to_argv(argument)
        if len(words) != 1:
            raise gdb.GdbError("Usage: longshore kernel NAME")
        self.name = words[0]
        is_running = gdb.selected_inferior().pid != 0
        if not self.go(self.name, "continue" if is_running else "run"):
            return
        is_of_cuda = self.is_of_cuda(self.name)
        if is_of_cuda and self.has_function_of_items(self.name):
            if self.go("*%d" % address_of(ITEM + self.name), "continue"):
                begin_item()
                show_item()
            return
        places = ["*%d" % place for place in places_of(self.name)]
        if not places:
            gdb.execute("frame")
        elif self.go_to_one(places, "continue"):
            if kernel_of(gdb.newest_frame()) is None:
                enter_inlined()
            show_item()
            item = item_of(gdb.newest_frame())
            self.kinds[self.name] = item is not None and item.is_of_group_kernel

    def is_of_cuda(self, name):
        return bool(name) and address_of(RUN + name) is not None and address_of(ITEM + name) is not None

    def has_function_of_items(self, name):
        """Returns whether the loops call the function of one item, and do not contain its code."""
        try:
            code = gdb.execute("disassemble '%s'" % (RUN + name), to_string=True)
        except gdb.error:
            return False
        return "%x" % address_of(ITEM + name) in code

    def go(self, place, command):
        """Runs the program until a function; returns whether it stops there."""
        return self.go_to_one([place], command)

    def go_to_one(self, places, command):
        """Runs the program until one of these places; returns whether it stops there."""
        stops = [CountingBreakpoint(place) for place in places]
        try:
            said = gdb.execute(command, to_string=True)
            is_hit = any(stop.is_hit for stop in stops)
            if not is_hit:
                print(said, end="")
            return is_hit
        finally:
            for stop in stops:
                if stop.is_valid():
                    stop.delete()


def places_of(kernel):
    """Returns the addresses of all lines of the body of a kernel in C, wherever it was inlined."""
    table = gdb.newest_frame().find_sal().symtab
    if table is None:
        return []
    found = set()
    for entry in table.linetable():
        # A place may have several lines, of which gdb shows the last.
        shown = gdb.find_pc_line(entry.pc).symtab
        is_shown = shown is not None and shown.filename == table.filename
        if is_shown and is_in_body(entry.pc, kernel):
            found.add(entry.pc)
    return sorted(found)


def is_in_body(place, kernel):
    block = gdb.block_for_pc(place)
    while block is not None:
        if block.function is not None and block.function.name == BODY + kernel:
            return True
        block = block.superblock
    return False


Longshore()
Items()
GoToItem()
Private()
KERNEL = Kernel()
