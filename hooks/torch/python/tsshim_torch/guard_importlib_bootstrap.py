# SPDX-License-Identifier: MIT
"""
What stands in the place of a library's function, so that nothing of ours can raise into a job.

Ours is written as a generator that says `value, error = yield` where the library's function is to
run, and returns the result.  It is not on the stack meanwhile.  An error of ours, before or after,
is said once, and the library's own function decides; that one is called once at most.

About the name of this file: what counts frames in warnings.warn(stacklevel=2) passes over those of
files that are called both "importlib" and "_bootstrap".  So a warning from below names the line
that it names without us.
"""

import functools
import inspect

from .asking import Meant, Raised


def failed(error):
    """An error of ours, counted and said once."""
    from . import native  # parts of what is guarded are used without the library, too
    native.failed(error)


class _Call:
    """One call of a function that ours stands in the place of."""

    __slots__ = ("step", "asked", "value", "error")

    def __init__(self):
        self.step = None
        self.asked = None  # arguments, in the place of those that were given
        self.value = self.error = None

    def begin(self, ours, args, kwargs):
        """Run ours up to its yield; whether the library's function is to be called."""
        try:
            self.step = ours(*args, **kwargs)
            self.asked = next(self.step)
            return True
        except StopIteration as end:
            self.value = end.value
        except Raised as raised:
            self.error = raised.args[0]
        except Meant as meant:
            self.error = meant
        except Exception as error:
            self.step = None
            failed(error)
            return True
        return False

    def end(self):
        """Run the rest of ours, now that value or error are there."""
        try:
            self.step.send((self.value, self.error))
        except StopIteration as end:
            if self.error is None:
                self.value = end.value
        except Raised as raised:
            if self.error is None:
                self.error = raised.args[0]
        except Meant as meant:
            if self.error is None:
                self.error = meant
        except Exception as error:
            failed(error)


def wrapped(original, ours, plain=None):
    """
    A function in the place of @original, as ours, a generator function, has it.  @plain makes of
    the positional arguments those that @original understands, where some are of our making.
    """
    @functools.wraps(original)
    def wrapper(*args, **kwargs):
        call = _Call()
        try:
            if call.begin(ours, args, kwargs):
                if call.asked is not None:
                    args = call.asked
                elif plain is not None:
                    args = plain(*args)
                try:
                    call.value = original(*args, **kwargs)
                except BaseException as error:
                    call.error = error.with_traceback(error.__traceback__.tb_next)
                if call.step is not None:
                    call.end()
            if call.error is not None:
                raise call.error
            return call.value
        finally:
            call.value = call.error = call.step = None  # no cycle with the traceback

    try:
        wrapper.__signature__ = inspect.signature(original)
    except (TypeError, ValueError):  # of what is made in C
        pass
    return wrapper


def wrap(owner, name, ours, plain=None):
    """Put ours in the place of function @name of the class or module @owner."""
    setattr(owner, name, wrapped(getattr(owner, name), ours, plain))


def takes(function, *names):
    """
    Whether the first parameters of @function are @names, which we know it by; one of them is None
    where any will do, as releases have renamed it.
    """
    try:
        found = tuple(inspect.signature(function).parameters)[:len(names)]
    except (TypeError, ValueError):
        return False
    return len(found) == len(names) and all(
        name in (None, its) for name, its in zip(names, found))
