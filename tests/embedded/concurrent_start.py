"""Starts a Postgres and a Valkey of a home once told to, and tells which processes they are."""

import sys
from pathlib import Path

import stacks

from warploom.embedded.postgres import Postgres
from warploom.embedded.valkey import Valkey


def both():
    services = Postgres(Path(sys.argv[1])), Valkey(Path(sys.argv[1]))
    return [[service.start(), stacks.pid_of(service)] for service in services]


stacks.speaking(both)
