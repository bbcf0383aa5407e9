"""Runs the command line as `python -m warploom`."""

import sys

from warploom.cli.main import main

sys.exit(main())
