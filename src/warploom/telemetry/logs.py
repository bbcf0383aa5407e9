"""Log lines: to stderr, one a line, sparse."""

import logging
import sys
import time


def get_logger(noun: str) -> logging.Logger:
    """Return the logger of one noun, such as `bus`."""
    return logging.getLogger(f"warploom.{noun}")


def start_logging(level: int = logging.INFO) -> None:
    """Write log lines to stderr, with the time in UTC."""
    handler = logging.StreamHandler(sys.stderr)
    formatter = logging.Formatter("%(asctime)sZ %(levelname)-7s %(name)s %(message)s", "%Y-%m-%dT%H:%M:%S")
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    root = logging.getLogger("warploom")
    root.handlers[:] = [handler]
    root.setLevel(level)
    root.propagate = False
