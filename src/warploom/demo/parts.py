"""What each agent of the demo is to do."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Part:
    """What an agent is to do: train a network of `hidden` units, as `job`, on `device`, in about `minutes`."""

    name: str
    job: str
    device: str
    minutes: float
    hidden: int
    epochs: int
    seed: int
