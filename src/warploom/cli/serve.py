"""`warploom serve`."""

import typer

app = typer.Typer(rich_markup_mode=None)


@app.command(epilog="Example: WARPLOOM_DATABASE_URL=postgresql://db.example/warploom warploom serve")
def serve() -> None:
    """Run one server in the foreground on the database and bus that are set. `warploom up` runs everything."""
    from warploom.server import main

    main()
