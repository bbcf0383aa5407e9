"""Warploom shares GPUs between coding agents and people."""
