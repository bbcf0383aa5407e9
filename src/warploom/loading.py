"""Loading of many modules at once, faster."""

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def undisturbed() -> Generator[None]:
    """Load modules in this block without the garbage collector, which would walk through all of them again and again.

    Next to nothing that loading makes is ever garbage; afterwards the collector leaves all of it aside.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()
