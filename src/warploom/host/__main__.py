"""Runs the host agent as `python -m warploom.host`."""

import sys

from warploom.host.main import main

sys.exit(main())
