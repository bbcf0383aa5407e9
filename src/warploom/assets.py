"""Finds skills, dashboard, migrations, demo and scenarios, in an installed wheel or in a checkout."""

from pathlib import Path
from typing import Literal

Kind = Literal["skills", "dashboard", "migrations", "demo", "scenarios"]

_PACKAGE = Path(__file__).parent
_CHECKOUT = _PACKAGE.parent.parent


def asset_dir(kind: Kind) -> Path:
    """Return the folder of one kind of asset; raise FileNotFoundError when it is in neither place."""
    for folder in (_PACKAGE / "_assets" / kind, _CHECKOUT / kind):
        if folder.is_dir():
            return folder
    raise FileNotFoundError(f"Warploom's {kind} folder is in neither {_PACKAGE / '_assets'} nor {_CHECKOUT}.")
