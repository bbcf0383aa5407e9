"""`warploom host`."""

import typer

app = typer.Typer(rich_markup_mode=None)


@app.command(epilog="Example: WARPLOOM_URL=https://warploom.example WARPLOOM_HOST_NAME=rack-b warploom host")
def host() -> None:
    """Run the host agent of a GPU machine in the foreground: it surveys the cards and tells the server."""
    from warploom.host.main import main

    main()
