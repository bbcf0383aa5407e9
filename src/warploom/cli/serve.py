"""`warploom serve`."""

import typer

app = typer.Typer(rich_markup_mode=None)


@app.command(epilog="Example: WARPLOOM_DATABASE_URL=postgresql://db.example/warploom warploom serve")
def serve() -> int:
    """Run one server in the foreground.

    It uses the database and the bus that are set; `warploom up` runs everything that one machine needs.
    """
    from warploom.serve import main

    return main()
