"""`warploom host`."""

import typer

app = typer.Typer(rich_markup_mode=None)


@app.command(epilog="Example: WARPLOOM_URL=https://warploom.example WARPLOOM_HOST_NAME=rack-b warploom host")
def host() -> int:
    """Run a machine's host agent in the foreground.

    It surveys the cards and tells the server that WARPLOOM_URL names.
    """
    from warploom.host.main import main

    return main()
