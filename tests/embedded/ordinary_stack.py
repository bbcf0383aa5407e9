"""Runs a whole stack once, as whoever starts it, and prints what became of it."""

import json
import sys
from pathlib import Path

import stacks

from warploom.embedded.stack import start, stop

home = Path(sys.argv[1])
settings = stacks.settings_of(home, port="0")
info = start(settings, programs=stacks.standins())
stop(settings)
sys.stdout.write(json.dumps({"health": info.health["status"], "left": stacks.processes_of(home)}))
