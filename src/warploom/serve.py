"""Starts the server, loading it as fast as it can be."""

import sys

from warploom.loading import undisturbed


def main() -> int:
    """Serve until stopped; settings come from the environment. Returns the exit status."""
    with undisturbed():
        from warploom import server  # noqa: PLC0415  (only here is the collector out of the way)
    return server.main()


if __name__ == "__main__":
    sys.exit(main())
