"""One agent of the demo, in a process of its own: asks for a card through MCP, waits if it must, trains, gives it back."""

import asyncio
import os
import re
import shlex
import sys
import traceback
from asyncio.subprocess import PIPE, Process, create_subprocess_exec
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from fastmcp import Client
from fastmcp.client.transports import StdioTransport

from warploom.assets import asset_dir
from warploom.demo.happenings import Kind, encode, now
from warploom.demo.parts import Part

_EVERY: Final = 20
_EPOCH: Final = re.compile(r"epoch (\d+)/(\d+) loss ([\d.]+) accuracy ([\d.]+)")
_FINAL: Final = re.compile(r"final accuracy ([\d.]+)")
_READY: Final = re.compile(r"ready: (\S+) \(lease (L-\d+),")
_PYTHON: Final = (sys.executable, "-P")


class Agent:
    """Plays a coding agent's part. Only the lines of its input are arranged: each lets it go on to its next step."""

    def __init__(self, part: Part, client: Client[Any]) -> None:
        self._part = part
        self._client = client

    async def play(self) -> None:
        """Survey, request, wait when the card is busy, train, release."""
        tools = await self._client.list_tools()
        self._tell(Kind.CONNECTED, f"has an MCP session over stdio and sees {len(tools)} tools", pid=os.getpid())
        await _cue()
        await self._survey()
        lease, export = await self._obtain()
        await self._train(lease, export)
        self._tell(Kind.RELEASES, f'calls gpu_release("{lease}")', lease=lease)
        answer = await self._call("gpu_release", lease=lease)
        self._tell(Kind.RELEASED, f"{lease} is {answer['state']}: {answer['next']}", lease=lease)

    async def _survey(self) -> None:
        answer = await self._call("gpu_survey")
        states = {card["card"]: card["state"] for card in answer["cards"]}
        seen = ", ".join(f"{card} {state}" for card, state in states.items())
        self._tell(Kind.SURVEYED, f"gpu_survey: {seen}", cards=states)

    async def _obtain(self) -> tuple[str, Mapping[str, str]]:
        """Ask for the card and return the lease and its variables, after waiting for them if need be."""
        part = self._part
        asked = f'gpu_request(job="{part.job}", device="{part.device}", minutes={part.minutes:g})'
        answer = await self._call("gpu_request", job=part.job, device=part.device, minutes=part.minutes)
        if answer["state"] == "active":
            text = f"{asked} is granted at once: {answer['lease']} on {answer['card']}"
            self._tell(Kind.GRANTED, text, ticket=answer["ticket"], lease=answer["lease"], card=answer["card"])
            await _cue()
            return answer["lease"], answer["export"]
        free = "; ".join(f"{card} is free, but was not asked for" for card in answer.get("also_free", []))
        text = f"{asked} is queued: {answer['ticket']}, place {answer['place']}. {answer['reason']}."
        self._tell(
            Kind.QUEUED,
            f"{text} {free}.".removesuffix(" ."),
            ticket=answer["ticket"],
            place=answer["place"],
            eta_source=answer["eta_source"],
        )
        await _cue()
        return await self._wait(answer["ticket"])

    async def _wait(self, ticket: str) -> tuple[str, Mapping[str, str]]:
        """Run `warploom wait` in the background, do nothing until it ends, and read what it printed as a shell would."""
        waiter = await create_subprocess_exec(*_PYTHON, "-m", "warploom", "wait", ticket, stdout=PIPE, stderr=PIPE)
        assert waiter.stdout is not None
        assert waiter.stderr is not None
        if await waiter.stderr.readline():
            text = f"runs `warploom wait {ticket}` in the background and ends its turn"
            self._tell(Kind.WAITS, text, ticket=ticket, pid=waiter.pid)
        said = (await waiter.stdout.readline()).decode().strip()
        if not said:
            await _succeeded(waiter, f"warploom wait {ticket}")
        card, lease = _ready(said)
        self._tell(Kind.WOKEN, said, ticket=ticket, lease=lease, card=card, who=f"wait {ticket}")
        lines = (await waiter.stdout.read()).decode().splitlines()
        await _succeeded(waiter, f"warploom wait {ticket}")
        self._tell(Kind.WAITED, f"is woken: `warploom wait {ticket}` has ended with 0", ticket=ticket, pid=waiter.pid)
        shell_line = next(line for line in lines if line.startswith("export "))
        return lease, dict(word.split("=", 1) for word in shlex.split(shell_line)[1:])

    async def _train(self, lease: str, export: Mapping[str, str]) -> None:
        part = self._part
        options = ("--hidden", part.hidden, "--epochs", part.epochs, "--seed", part.seed)
        script = str(asset_dir("demo") / "train.py")
        environment = {**os.environ, **export}
        job = await create_subprocess_exec(*_PYTHON, script, *map(str, options), env=environment, stdout=PIPE)
        variables = f"CUDA_VISIBLE_DEVICES={export['CUDA_VISIBLE_DEVICES']}"
        text = f"starts training {part.hidden} hidden units with {variables}"
        self._tell(Kind.TRAINS, text, lease=lease, pid=job.pid)
        accuracy = await self._follow(job, lease)
        await _succeeded(job, "train.py")
        if accuracy is None:
            raise RuntimeError("train.py ended without saying how good the network became")
        text = f"its training ended: {accuracy:.1%} of the images it had not seen are right"
        self._tell(Kind.TRAINED, text, lease=lease, accuracy=accuracy, pid=job.pid)

    async def _follow(self, job: Process, lease: str) -> float | None:
        """Pass on now and then how far the job is; return the accuracy it ends with."""
        accuracy = None
        assert job.stdout is not None
        async for line in job.stdout:
            text = line.decode().strip()
            if (final := _FINAL.fullmatch(text)) is not None:
                accuracy = float(final[1])
            if (epoch := _EPOCH.fullmatch(text)) is not None and int(epoch[1]) % _EVERY == 0:
                said = f"epoch {epoch[1]} of {epoch[2]}, loss {float(epoch[3]):.3f}, {float(epoch[4]):.1%} right"
                self._tell(Kind.PROGRESS, said, lease=lease, who=f"job {lease}")
        return accuracy

    async def _call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        result = await self._client.call_tool(tool, arguments)
        if not isinstance(result.structured_content, dict):
            raise TypeError(f"{tool} answered without structured content")
        return result.structured_content

    def _tell(self, kind: Kind, text: str, who: str | None = None, **facts: Any) -> None:
        tell(who or self._part.name, kind, text, agent=self._part.name, **facts)


def tell(who: str, kind: Kind, text: str, **facts: Any) -> None:
    """Tell the demo, on stdout, what happens right now."""
    sys.stdout.buffer.write(encode(now(who, kind, text, **facts)))
    sys.stdout.buffer.flush()


def _ready(said: str) -> tuple[str, str]:
    """Read the card and the lease from the line with which `warploom wait` announces them."""
    found = _READY.search(said)
    if found is None:
        raise ValueError(f"`warploom wait` said {said!r} instead of naming a card and a lease")
    return found[1], found[2]


async def _cue() -> None:
    """Wait for the next line of the input; raise EOFError when the demo has gone."""
    if not await asyncio.to_thread(sys.stdin.readline):
        raise EOFError("the demo has gone")


async def _succeeded(process: Process, name: str) -> None:
    """Wait for the end of a process that this agent started; raise RuntimeError unless its status is 0."""
    errors = b"" if process.stderr is None else await process.stderr.read()
    status = await process.wait()
    if status != 0:
        raise RuntimeError(f"`{name}` ended with status {status}. {errors.decode(errors='replace').strip()[-300:]}")


async def _run(part: Part) -> None:
    server = StdioTransport(_PYTHON[0], [*_PYTHON[1:], "-m", "warploom", "mcp"], dict(os.environ), keep_alive=False)
    await _cue()
    async with Client(server) as client:
        await Agent(part, client).play()
    tell(part.name, Kind.LEFT, "closes its session", agent=part.name)


def main() -> int:
    """Play the part given as JSON, and return the exit status."""
    part = msgspec.json.decode(sys.argv[1], type=Part)
    try:
        asyncio.run(_run(part))
    except Exception as error:  # noqa: BLE001  (whatever it was, the demo tells of it)
        traceback.print_exc()
        tell(part.name, Kind.FAILED, f"{error or type(error).__name__}", agent=part.name)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
