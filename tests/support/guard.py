"""Stops what runs in a home once its standard input ends, so that a test run that is killed leaves nothing behind."""

import shutil
import sys
from pathlib import Path

from warploom.embedded.postgres import Postgres
from warploom.embedded.valkey import Valkey


def main() -> None:
    home = Path(sys.argv[1])
    sys.stdin.read()
    if home.exists():
        Valkey(home).stop()
        Postgres(home).stop()
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    main()
