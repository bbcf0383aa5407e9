"""Makes one change as a server would, and dies as by kill -9 when it has committed and nothing has hinted at it yet."""

import asyncio
import json
import os
import signal
import sys

import msgspec

from warploom.app import App, build_app
from warploom.config import Settings
from warploom.domain.callers import Caller
from warploom.domain.hosts import Survey
from warploom.domain.identifiers import parse_lease


async def release(app: App, agent: str, lease: str) -> None:
    actor = await app.sessions.identify(Caller(agent=agent, session_key=agent))
    _die_before_the_hint(app)
    await app.leases.release(actor, parse_lease(lease))


async def survey(app: App, host: str, told: str) -> None:
    _die_before_the_hint(app)
    await app.hosts.record_survey(host, msgspec.convert(json.loads(told), Survey))


def _die_before_the_hint(app: App) -> None:
    """The moment between commit and publish is too short to be hit from outside."""
    app.bus.publish = lambda topics: os.kill(os.getpid(), signal.SIGKILL)


async def main(change: str, *arguments: str) -> None:
    app = build_app(Settings.load())
    await app.start(upgrade=False)
    await {"release": release, "survey": survey}[change](app, *arguments)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
