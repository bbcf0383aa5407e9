"""Peers run in an environment of their own, by their own code; each run is a process that prints one line of JSON."""

import asyncio
import json
import subprocess
import sys

from benchmarks.stack import HOUSE

PYTHON = HOUSE / ".venv-bench" / "bin" / "python"
_SECONDS = 120


async def measure_peer(script: str, *arguments: object) -> float | None:
    """Return the tasks a second that a script of `benchmarks/peers/` measured; None where its peer is not installed."""
    if not PYTHON.exists():
        return None
    command = [str(PYTHON), str(HOUSE / "benchmarks" / "peers" / f"{script}.py"), *map(str, arguments)]
    done = await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, check=False, timeout=_SECONDS
    )
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or ["it gave no reason"]
        print(f"{script} did not run: {lines[-1][:200]}", file=sys.stderr)
        return None
    return float(json.loads(done.stdout.strip().splitlines()[-1])["per_second"])
