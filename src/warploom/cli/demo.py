"""`warploom demo`."""

import typer

app = typer.Typer(rich_markup_mode=None)


@app.command(epilog="Example: warploom demo")
def demo() -> int:
    """Watch two agents share two fake cards, for real, in under a minute; leaves nothing running."""
    from warploom.demo import main

    return main()
