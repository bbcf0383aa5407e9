"""Runs the MCP server of one agent session."""

from warploom.stdio.main import main

if __name__ == "__main__":
    main()
