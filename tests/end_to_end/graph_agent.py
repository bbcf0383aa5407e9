"""An agent that works on a project until nothing is left: `python graph_agent.py stdio|http NAME URL FOLDER`.

It does what the title of a task says: fails, gives up, or stops for ever while it holds a card.
"""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from fastmcp import Client
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport

OCCUPY = (
    "from warploom.host.fake_context import occupy\n"
    "import sys\n"
    "occupy(memory_mib=9_000)\n"
    "print('on the card', flush=True)\n"
    "sys.stdin.read()"
)


class Agent:
    """One agent and its session."""

    def __init__(self, door: str, name: str, url: str, folder: Path) -> None:
        self._folder = folder
        self._name = name
        if door == "http":
            os.environ["WARPLOOM_SESSION"] = name
            headers = {
                "X-Warploom-Agent": name,
                "X-Warploom-Session": name,
                "X-Warploom-Project": os.environ["WARPLOOM_PROJECT"],
            }
            self._client: Client[Any] = Client(StreamableHttpTransport(f"{url}/mcp", headers=headers))
        else:
            server = StdioTransport(sys.executable, ["-m", "warploom", "mcp"], env=dict(os.environ))
            self._client = Client(server)

    async def work(self) -> None:
        """Claim and do what there is, until the folder says that all is over."""
        async with self._client:
            while not (self._folder / "over").exists():
                answer = await self._call("loom_claim")
                if answer.get("lease"):
                    await self._do(answer)
                elif answer.get("queued"):
                    await self._wait_for_card(answer["queued"][0]["ticket"])
                else:
                    await self._command("wait", "--ready", "--timeout", "0.05")

    async def _wait_for_card(self, ticket: str) -> None:
        code, told = await self._command("wait", ticket, "--timeout", "1")
        if code == 0 and told.get("lease"):
            task = (await self._call("loom_status", task_id=ticket)) | {"task": ticket}
            await self._do({"lease": told["lease"], "export": told["export"], "task": task})

    async def _do(self, claim: dict[str, Any]) -> None:
        task, lease = claim["task"], claim["lease"]
        name, title = task["task"], task["title"]
        await self._call("loom_heartbeat", task_id=name, lease=lease, progress="begun", percent=1)
        if claim.get("export"):
            await self._use_card(title, claim["export"])
        attempts = (await self._call("loom_status", task_id=name))["attempts"]
        if title == "download" and attempts == 1:
            await self._call("loom_fail", task_id=name, lease=lease, reason="no network", failure_class="infra")
        elif title == "configure" and not task.get("comments"):
            await self._call("loom_fail", task_id=name, lease=lease, reason="no such key", failure_class="user_error")
        else:
            await self._call("loom_done", task_id=name, lease=lease, output={"by": self._name})

    async def _use_card(self, title: str, export: dict[str, str]) -> None:
        command = [sys.executable, "-c", OCCUPY]
        with subprocess.Popen(command, env=os.environ | export, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as job:
            assert job.stdout is not None
            job.stdout.readline()
            if title == "train b" and self._is_first_to_stop():
                await asyncio.Event().wait()
            job.communicate()

    def _is_first_to_stop(self) -> bool:
        try:
            with (self._folder / "stopped").open("x") as file:
                file.write(str(os.getpgid(0)))
        except FileExistsError:
            return False
        return True

    async def _call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        content = (await self._client.call_tool(tool, arguments)).structured_content
        assert content is not None
        return content

    async def _command(self, *arguments: str) -> tuple[int, dict[str, Any]]:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "warploom", *arguments, "--json", stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        printed, _ = await process.communicate()
        return process.returncode or 0, json.loads(printed or b"{}")


if __name__ == "__main__":
    asyncio.run(Agent(sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4])).work())
