"""Starts a home's whole stack, with stand-ins for our programs, once told to; tells its supervisor and address."""

import sys
from pathlib import Path

import stacks

from warploom.embedded.stack import start


def whole():
    info = start(stacks.settings_of(Path(sys.argv[1]), port="0"), programs=stacks.standins())
    return [info.daemon.pid, info.url]


stacks.speaking(whole)
