"""`warploom mcp`."""

import typer

app = typer.Typer(rich_markup_mode=None)


@app.command(epilog="Example: warploom init, which has your agent's client start it")
def mcp() -> None:
    """Serve one agent session over stdio (MCP).

    Agents' clients start this; every byte on its stdout is JSON-RPC.
    """
    from warploom.stdio.main import main

    main()
