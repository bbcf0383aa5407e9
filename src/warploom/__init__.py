"""Warploom shares GPUs between coding agents and people."""

TYPE_CHECKING = False
if TYPE_CHECKING:  # loading typing would cost a training script more than all the rest
    from warploom.report import report as report

__all__ = ["report"]


def __getattr__(name: str) -> object:
    """Load `report` when it is first asked for."""
    if name == "report":
        from importlib import import_module  # noqa: PLC0415

        return import_module("warploom.report")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
