"""The request to stop, which no moment of its coming may lose."""

import subprocess
import sys

STOPPED_THROUGH_ANOTHER_THREAD = """
import signal, threading
from warploom.embedded.keeper import Halt

halt, is_waiting = Halt(), threading.Event()
halt.listen(signal.SIGTERM)

def send():
    is_waiting.wait()
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
    threading.Event().wait(60)

threading.Thread(target=send, daemon=True).start()
is_waiting.set()
print(halt.wait(50))
"""


def test_a_signal_that_does_not_interrupt_the_wait_still_ends_it() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", STOPPED_THROUGH_ANOTHER_THREAD], capture_output=True, text=True, timeout=30, check=True
    )

    assert ended.stdout == "True\n"
