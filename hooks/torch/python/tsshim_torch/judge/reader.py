# SPDX-License-Identifier: MIT
"""
Reading the byte code of a function of the user's: what it could do to anything but its result.

The argument.  Let U be all that an item can get hold of: what the data set refers to, what the
globals, closures and defaults of its code refer to, and what is made of that while the item
runs.  Code can do to U only what something in U can do when it is called, and what its own
instructions do.  So a function passes when
- whatever it takes from outside (a global, what a closure holds) is in U by right: a module that
  is asked for a name at once, something in allowed.py, or judged as the data set itself is;
- each instruction is one of instructions.py: they compute, build, compare, index and call;
- what changes something in place (x[i] = y, x += y, x.append(y)) has before it, on every way
  through the code, something made by this very function just now ("fresh");
- an attribute that it asks for, by name, is harmless for whatever class may have it: for the
  classes of libraries that surroundings.holders() lists and those of objects met, because the
  name is in allowed.py, or because none of them has it; for classes of the user's, because
  the judge reads each method and property of that name of every class met.
Values are called without knowing which they are: everything in U that can be called was judged
when it came in, for any arguments.  What is only allowed for some arguments (numpy's functions
write into their last ones) may be called by name, but not become a value.  No handler of an
exception is allowed, so an error leaves the item, and an item that raised is never shared.
What is not understood raises Refused: an instruction of another Python, above all.
"""

import dis
import string
import types

from ..fingerprint import library, nodes, walk
from ..fingerprint.code import named_attributes
from . import Refused, allowed
from .instructions import (ANY, DROPS, EFFECTS, FRESH, HANDLERS, IGNORED, PLAIN, SELF, SUPER, Value,
                           check_handlers, names_of)

STEPS = 20000  # instructions looked at; more is not worth the time

_steps = {}  # id(code) -> (code, its instructions); the code is kept, so that its id stays its own


def _instructions(code):
    known = _steps.get(id(code))
    if known is None:
        known = _steps[id(code)] = (code, list(dis.get_instructions(code)))
    return known[1]


class Reader:
    """One way of reading one code object; read() does it."""

    def __init__(self, judge, code, names, cells, owner=None):
        self.judge, self.code, self.names = judge, code, names
        self.cells = cells  # name of a free variable -> Value
        self.owner = owner  # the class whose method this is, or is inside of
        self.first = ANY if owner is None else SELF
        self.by_name = {}  # arguments of the call at hand
        self.states = {}  # offset -> (stack, locals)
        self.waiting = []
        self.inner = {}  # code objects inside that were read

    def read(self):
        """Raises Refused."""
        code = self.code
        if code.co_flags & (0x80 | 0x100 | 0x200):  # coroutines
            raise Refused("async %s" % code.co_name)
        steps = _instructions(code)
        check_handlers(code, steps)
        self.after = {step.offset: following for step, following in zip(steps, steps[1:])}
        by_offset = {step.offset: step for step in steps}
        self.named = named_attributes(steps)
        count = code.co_argcount + code.co_kwonlyargcount + bin(code.co_flags & 12).count("1")
        local = dict.fromkeys(code.co_varnames[:count], ANY)
        if code.co_argcount:
            local[code.co_varnames[0]] = self.first
        self._own_cells(steps)
        self._names_of_calls(steps)
        self._flow(0, [], local)
        for _ in range(STEPS):
            if not self.waiting:
                return
            self._step(by_offset[self.waiting.pop()])
        raise Refused("%s is too long" % code.co_name)

    def _names_of_calls(self, steps):
        """What KW_NAMES says belongs to the call that follows."""
        self.keywords, names = {}, ()
        for step in steps:
            if step.opname == "KW_NAMES":
                names = self.code.co_consts[step.arg]
            elif step.opname == "CALL":
                self.keywords[step.offset], names = names, ()

    def _own_cells(self, steps):
        stored = {step.argval for step in steps if step.opname in ("STORE_DEREF", "DELETE_DEREF")}
        if stored & set(self.code.co_freevars):
            raise Refused("%s changes a variable around it" % self.code.co_name)
        first = self.code.co_varnames[0] if self.code.co_argcount else None
        for step in steps:
            if step.opname.startswith("STORE_FAST"):
                stored.update(names_of(step))
        for name in self.code.co_cellvars:
            is_first = name == first and name not in stored
            self.cells = {**self.cells, name: self.first if is_first else ANY}

    def _flow(self, offset, stack, local):
        """Go on at @offset with this state, or with what it has in common with the one known."""
        known = self.states.get(offset)
        if known is None:
            self.states[offset] = (list(stack), dict(local))
            self.waiting.append(offset)
            return
        if len(known[0]) != len(stack):
            raise Refused("the stack of %s" % self.code.co_name)
        merged = [self._merge(a, b) for a, b in zip(known[0], stack)]
        places = {name: self._merge(known[1].get(name, ANY), local.get(name, ANY))
                  for name in {**known[1], **local}}
        if not all(map(Value.same, merged, known[0])) or not all(
                name in known[1] and value.same(known[1][name]) for name, value in places.items()):
            self.states[offset] = (merged, places)
            self.waiting.append(offset)

    def _merge(self, a, b):
        if a.same(b):
            return a
        kinds = {self.use(a).kind, self.use(b).kind}
        return PLAIN if kinds <= {"plain", "const"} else ANY

    def _step(self, step):
        stack, local = self.states[step.offset]
        self.stack, self.local, self.step = list(stack), dict(local), step
        name, ends = step.opname, False
        if name in HANDLERS:
            ends = HANDLERS[name](self, step)
        elif name in EFFECTS or name in DROPS:
            count, results = EFFECTS.get(name) or DROPS[name]
            values = self.pop(count(step.arg) if callable(count) else count)
            if name in EFFECTS:
                self.use_all(values)
            self.stack.extend(map(Value, results.split()))
        elif name not in IGNORED:
            raise Refused("%s in %s" % (name, self.code.co_name))
        if not ends and step.offset in self.after:
            self._flow(self.after[step.offset].offset, self.stack, self.local)

    # ---- what instructions.py works with ----

    def jump(self, target, stack):
        """Another way on."""
        self._flow(target, stack, self.local)

    def pop(self, count):
        """The @count topmost values, the lowest first."""
        if count > len(self.stack):
            raise Refused("the stack of %s" % self.code.co_name)
        if not count:
            return []
        values = self.stack[-count:]
        del self.stack[-count:]
        return values

    def refuse(self, what):
        """Raise Refused."""
        raise Refused("%s in %s" % (what, self.code.co_name))

    def use(self, value):
        """@value becomes one of those that may be anywhere from now on."""
        if value.kind == "known":
            self.judge.value(value.what)
            return ANY
        if value.kind == "attr":
            if value.what in allowed.CHANGES or value.what in allowed.LIMITS \
                    or value.what in allowed.RULES:
                self.refuse("." + value.what)
            return ANY
        if value.kind == "classes":
            for kind in value.what:
                self.judge.value(kind)
            return ANY
        if value.kind == "const" and type(value.what) is frozenset:
            self.judge.by_hash = True  # {"a", "b"} that is gone through
            self.judge.set_order(value.what)
            return ANY
        if value.kind in ("null", "super", "class", "enter"):
            self.refuse("a strange value")
        return value

    def use_all(self, values):
        """The same for each of the @values, or None."""
        for value in values or ():
            self.use(value)

    def outside(self, value):
        """What comes from outside of the code: a global or what a closure holds."""
        kind = type(value)
        if id(kind) in walk.ATOM_IDS:
            return Value("const", value)
        if kind is types.ModuleType or self.judge.is_callable(value):
            return Value("known", value)
        self.judge.value(value)
        self.judge.holds(value)
        return ANY

    def cell(self, name):
        """The value of a variable of this function or one around it."""
        known = self.cells.get(name)
        if known is None:
            self.refuse("variable " + name)
        return known

    def get_global(self, name):
        """The value of a global or built-in name."""
        if name in self.names:
            return self.outside(self.names[name])
        builtins = self.judge.builtins
        if name not in builtins:
            self.refuse("name " + name)
        return self.outside(builtins[name])

    def function(self, code):
        """A function was made of @code, which is inside of this one."""
        if type(code) is not types.CodeType:
            self.refuse("a function")
        if id(code) not in self.inner:
            self.inner[id(code)] = code
            inside = Reader(self.judge, code, self.names,
                            {name: self.cell(name) for name in code.co_freevars}, self.owner)
            inside.first = ANY
            inside.read()
        return ANY

    def attribute(self, owner, name):
        """@owner.name"""
        if owner.kind == "known":
            return self._of_known(owner.what, name)
        if name == "__class__" and owner.kind != "known":  # as dataclasses compare
            return Value("class")
        if owner.kind == "class" and name in ("__name__", "__qualname__"):
            return PLAIN
        if owner.kind in ("self", "super"):
            self.judge.own_name(self.owner, name, owner.kind == "super")
            return ANY
        self.use(owner)
        if name.startswith("__"):
            self.refuse("." + name)
        self.judge.computes_by(name)
        known = name in allowed.ATTRIBUTES or name in allowed.CHANGES
        self.judge.name(name, known)
        keeps = owner.kind in ("fresh", "const")
        return Value("attr", name, owner if keeps else ANY) if known else ANY

    def _of_known(self, owner, name):
        if type(owner) is types.ModuleType:
            found = library.module_dict(owner)
            if name not in found:
                self.refuse(".%s of a module" % name)
            return self._of_module(owner, name, found[name])
        found = self.judge.class_attribute(owner, name)
        return self.outside(found) if found is not None else self.refuse("." + name)

    def _of_module(self, owner, name, value):
        if type(value) is types.ModuleType or self.judge.is_callable(value):
            return self.outside(value)
        # Fingerprints see what code asks of a module that it names; where the module comes out
        # of a closure, or another name, they look at all of it, but not at all of a library.
        of_library = library.is_library_name(library.module_name(owner))
        is_seen = self.step.offset in self.named
        if not is_seen and (of_library or name.startswith("__")) or \
                of_library and not nodes.is_walked_in_library(value):
            self.refuse(".%s of a module" % name)
        return self.outside(value)

    def call(self, callee, arguments, keywords):
        """
        What callee(*arguments) with these @keywords is: names, or None for any; @arguments is
        None where their number is not known.
        """
        if callee.kind == "known":
            return self._call_known(callee.what, arguments, keywords)
        self.use_all(arguments)
        if callee.kind == "enter" and arguments == [] and keywords == ():
            return callee.owner
        if callee.kind == "attr":
            return self._call_attribute(callee, arguments, keywords)
        self.use(callee)
        if keywords is None or allowed.CHANGING_KEYWORDS & set(keywords):
            self.refuse("keywords")
        return ANY

    def _call_known(self, target, arguments, keywords):
        call = self.judge.calls.get(id(target))
        if call is None:
            self.use_all(arguments)
            self.judge.called(target, arguments, keywords)
            return ANY
        self.judge.called_by_name(target)
        if call.rule is not None:
            return _RULES[call.rule](self, call, target, arguments, keywords)
        self.use_all(arguments)
        if keywords is None or allowed.KEYWORDS & set(keywords):
            self.refuse("keywords")
        if call.limit is not None and (arguments is None or len(arguments) > call.limit):
            self.refuse("arguments")
        if call.draws:
            self.judge.generators.add(call.draws)
        if "copy" in keywords:  # numpy.array(x, copy=False)
            return ANY
        name = getattr(target, "__name__", None)
        if name == "imread" and any(value.kind not in ("plain", "const")
                                    for value in (arguments or ())[1:]):
            self.refuse("arguments")  # from OpenCV 4.11 on it may be what is written to
        if name in allowed.PASSED_ON:
            self.judge.new_names.add(name)
        return {"any": ANY, "fresh": FRESH, "plain": PLAIN}[call.result]

    def _call_attribute(self, callee, arguments, keywords):
        name, count = callee.what, None if arguments is None else len(arguments)
        if keywords is None or allowed.CHANGING_KEYWORDS & set(keywords):
            self.refuse("keywords of ." + name)
        if name in allowed.CHANGES:
            if callee.owner.kind != "fresh":
                self.refuse("." + name)
            if name in allowed.CHANGES_AND_DRAWS:
                self.judge.generators.add(allowed.TORCH)
            return ANY
        if name in allowed.LIMITS and (count is None or count > allowed.LIMITS[name]):
            self.refuse("arguments of ." + name)
        if name in ("format", "format_map"):
            _check_format(self, callee.owner)
        if name == "open":
            _check_mode(self, arguments, keywords, 0)
            self.judge.new_names.add(name)
            return FRESH
        if name == "replace" and (count is None or count < 2):
            self.refuse(".replace")  # a path's renames the file
        if name == "copy":
            _check_copy(self, arguments, keywords)
        if name == "resize" and callee.owner.kind != "fresh":
            self.judge.has_resize = True  # an array's is in place
        if name in allowed.SET_NAMES:
            self.judge.by_hash = True
        if name in allowed.NEW:
            self.judge.new_names.add(name)
            return FRESH
        return ANY


# ---- rules of single functions ----

def _check_mode(reader, arguments, keywords, place):
    """Files are opened for reading only."""
    if arguments is None or keywords is None or {"opener", "mode", "file"} & set(keywords):
        reader.refuse("open")
    if len(arguments) > place:
        mode = arguments[place]
        if mode.kind != "const" or mode.what not in ("r", "rb", "rt"):
            reader.refuse("open")


def _check_format(reader, text):
    """A format string may ask for any attribute of anything; only those that ask for none."""
    if text.kind != "const" or type(text.what) is not str:
        reader.refuse(".format")
    try:
        fields = list(string.Formatter().parse(text.what))
    except ValueError:
        fields = []  # an error there, too
    for _, name, rest, _ in fields:
        if name is not None and ("." in name or "[" in name or "{" in rest):
            reader.refuse(".format")


def _check_copy(reader, arguments, keywords):
    """From Python 3.14 on a path's copies the file to its argument; an array's may be told an order."""
    if arguments is None or arguments or set(keywords) - {"order"}:
        reader.refuse("arguments of .copy")


def _open(reader, _call, _target, arguments, keywords):
    _check_mode(reader, arguments, keywords, 1)
    if len(arguments) > 3 or "closefd" in keywords or \
            arguments and arguments[0].kind == "const" and type(arguments[0].what) is int:
        reader.refuse("open")  # a descriptor of the program's, which has a position
    reader.use_all(arguments)
    return FRESH


def _isinstance(reader, _call, _target, arguments, keywords):
    if arguments is None or len(arguments) != 2 or keywords != ():
        reader.refuse("isinstance")
    value, kinds = arguments
    reader.use(value)
    if kinds.kind == "known" and isinstance(kinds.what, type):
        kinds = Value("classes", (kinds.what,))
    if kinds.kind != "classes":
        reader.refuse("isinstance")
    for kind in kinds.what:
        reader.judge.asked_class(kind)
    return PLAIN


def _getattr(reader, call, _target, arguments, keywords):
    if arguments is None or keywords != () or not 2 <= len(arguments) <= call.limit \
            or arguments[1].kind != "const" or type(arguments[1].what) is not str:
        reader.refuse("getattr")
    reader.use_all(arguments[2:])
    found = reader.attribute(arguments[0], arguments[1].what)
    return PLAIN if call.result == "plain" else reader.use(found)


def _super(reader, _call, _target, arguments, keywords):
    if arguments is None or arguments or keywords != () or reader.first is not SELF \
            or not reader.local.get(reader.code.co_varnames[0], reader.first).same(SELF):
        reader.refuse("super")
    return SUPER


def _set(reader, call, _target, arguments, keywords):
    for value in arguments or ():
        if value.kind != "const":  # by which elements' addresses are its order, who knows
            reader.refuse("a set")
        reader.use(value)
    reader.judge.by_hash = True
    return FRESH if call.result == "fresh" else ANY


def _shuffle(reader, call, _target, arguments, keywords):
    if arguments is None or len(arguments) != 1 or keywords != () or \
            arguments[0].kind != "fresh":
        reader.refuse("shuffle")
    reader.judge.generators.add(call.draws)
    return PLAIN


def _pad(reader, call, _target, arguments, keywords):
    """numpy.pad(array, width, mode): what mode "empty" adds is memory that nobody wrote."""
    if arguments is None or keywords is None or len(arguments) > call.limit:
        reader.refuse("pad")
    reader.use_all(arguments)
    for mode in (*arguments[2:], *(reader.by_name[name] for name in keywords if name == "mode")):
        if mode.kind != "const" or mode.what == "empty":
            reader.refuse("pad")
    return FRESH


_RULES = {"open": _open, "isinstance": _isinstance, "getattr": _getattr, "super": _super,
          "set": _set, "shuffle": _shuffle, "pad": _pad}
