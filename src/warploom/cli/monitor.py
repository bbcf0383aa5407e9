"""`warploom monitor`."""

import typer

from warploom.config import Settings

app = typer.Typer(rich_markup_mode=None)


@app.command(epilog="Example: warploom monitor, which the plugin for Claude Code starts by itself")
def monitor() -> int:
    """Print a line whenever this session has something to act on, and stay.

    For clients that read a command's output line by line, such as a plugin's monitor. A line comes for an offer that nothing
    else has delivered within a few seconds, and for a message; each once, whatever is restarted. A change of place is none.
    It ends with the client that started it.
    """
    from warploom.stdio.monitor import watch

    watch(Settings.load())
    return 0
