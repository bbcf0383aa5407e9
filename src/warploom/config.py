"""Settings: read once from the environment and `config.toml`; everyone else receives values."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta
from pathlib import Path
from typing import Any

from warploom.domain.card_rules import NO_TABLES, CardTables, read_card_tables
from warploom.domain.errors import MalformedInput
from warploom.domain.reservations import LONGEST
from warploom.domain.toolsets import Toolset, read_toolsets

PREFIX = "WARPLOOM_"


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: its name in `config.toml` (upper-cased with WARPLOOM_ before it in the environment) and its meaning."""

    name: str
    default: str
    meaning: str


SETTINGS: tuple[Setting, ...] = (
    Setting("home", "~/.warploom", "Where the local stack keeps its data, sockets and logs. Only in the environment."),
    Setting("database_url", "", "A Postgres (16 or newer) to use instead of the embedded one."),
    Setting("redis_url", "", "A Redis or Valkey (7 or newer) to use instead of the embedded one; `none` does without."),
    Setting("url", "", "The server that clients speak to; by default the local stack of this home."),
    Setting("bind", "127.0.0.1", "The address the server listens on; beyond loopback both keys must be set."),
    Setting("port", "8765", "The port the server listens on; the local stack takes a free one when it is taken."),
    Setting("key", "", "The key that agents and hosts send as a bearer token; empty on loopback means no key."),
    Setting("operator_key", "", "The key that operators send; needed to drain cards where keys are set."),
    Setting("allowed_hosts", "", "Further Host names the server answers to, with commas between."),
    Setting("agent", "", "The agent's name; without it the server gives one such as claude-1."),
    Setting("project", "default", "The project that requests belong to."),
    Setting("session", "", "A name for this session, for clients that are no process of this machine."),
    Setting("host_name", "local", "The name of this machine's cards: `local` in `local/0`."),
    Setting("fake_gpus", "0", "Serve this many scriptable fake cards instead of asking the NVIDIA driver."),
    Setting(
        "fake_scenario",
        "",
        "A scenario (its name, or a YAML file) that the fake cards play when the host agent starts; it brings its own cards.",
    ),
    Setting(
        "survey_seconds",
        "2",
        "How often a host looks at its cards; a card seen longer ago than two of these is not granted.",
    ),
    Setting("lease_minutes", "10", "How long a holder may be silent before its lease ends."),
    Setting("offer_seconds", "180", "How long an offer waits for its session."),
    Setting("missed_offers", "3", "How many missed offers in a row park a ticket."),
    Setting(
        "settle_seconds",
        "60",
        "How long memory may take to drain after a release before the card counts as held by a ghost.",
    ),
    Setting(
        "foreign_quiet_seconds",
        "120",
        "How long somebody else's process must be gone before its card is granted again.",
    ),
    Setting(
        "breaker_failures",
        "2",
        "How many jobs in a row that fail soon and in the words of broken hardware quarantine their card; above 8 is never.",
    ),
    Setting(
        "breaker_suspicions",
        "3",
        "How many different jobs in a row that fail soon, whatever they say, make their card suspect; above 8 is never.",
    ),
    Setting("breaker_seconds", "120", "How soon after its start a job must fail to speak against its card."),
    Setting("p0_head_start_minutes", "60", "How much earlier a p0 ticket counts as having come."),
    Setting("p1_head_start_minutes", "30", "How much earlier a p1 ticket counts as having come."),
    Setting("reservation_days", "7", "How many days ahead a card may be reserved."),
    Setting("reservation_hours", "24", "The longest reservation in hours; at most 24."),
    Setting("reservations_open", "10", "How many reservations an agent may have that are not over."),
    Setting("max_attempts", "3", "How often a task is tried before it is a dead letter, where it does not say itself."),
    Setting("retry_base_seconds", "60", "How long to wait before the second attempt at a task; doubles with each."),
    Setting("retry_max_seconds", "3600", "The longest wait before another attempt."),
    Setting(
        "toolsets",
        "",
        "Which groups of tools agents see, with commas between: gpu, graph, admin, or all; empty is gpu,graph.",
    ),
    Setting("capabilities", "", "What this host can do, such as docker; tasks may need it. With commas between."),
    Setting("event_days", "90", "How long events are kept."),
    Setting("streams", "32", "How many event streams one user may hold open at a time on one server process."),
    Setting("pool_size", "10", "Database connections of one server process."),
)
_DEFAULTS = {setting.name: setting.default for setting in SETTINGS}
CARD_SETTINGS: tuple[Setting, ...] = (
    Setting("weight", "1", "How fast the card is beside others: of several that are free, `any` takes the fastest."),
    Setting(
        "ignore",
        "[]",
        "Whose processes keep nobody away: `user:NAME`, `command:PATTERN` (with `*` and `?`), or a program's name.",
    ),
)
"""What the table of a card may say in `config.toml`: there alone, and only for the cards of the machine it lies on."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Every setting as a value; see `SETTINGS` for the meanings."""

    home: Path
    database_url: str | None
    redis_url: str | None
    url: str | None
    bind: str
    port: int
    key: str | None
    operator_key: str | None
    allowed_hosts: tuple[str, ...]
    agent: str | None
    project: str
    session: str | None
    host_name: str
    fake_gpus: int
    fake_scenario: str | None
    """A name, or the absolute path of a file."""
    survey_interval: timedelta
    lease_time: timedelta
    offer_time: timedelta
    missed_offers: int
    settle_time: timedelta
    foreign_quiet: timedelta
    breaker_failures: int
    breaker_suspicions: int
    breaker_time: timedelta
    p0_head_start: timedelta
    p1_head_start: timedelta
    reservation_ahead: timedelta
    reservation_longest: timedelta
    reservations_open: int
    max_attempts: int
    retry_base: timedelta
    retry_most: timedelta
    toolsets: tuple[Toolset, ...]
    capabilities: tuple[str, ...]
    event_time: timedelta
    streams: int
    pool_size: int
    cards: CardTables
    source: Mapping[str, str] = field(default_factory=dict[str, str], repr=False, compare=False)

    @classmethod
    def load(cls, environment: Mapping[str, str] | None = None) -> "Settings":
        """Read the environment, then `$WARPLOOM_HOME/config.toml`, then the defaults; raise MalformedInput on nonsense."""
        seen = os.environ if environment is None else environment
        home = cls.home_of(seen)
        file = _file(home / "config.toml")
        return _build(home, _DEFAULTS | file.values | _environment(seen), file.cards)

    @staticmethod
    def home_of(environment: Mapping[str, str]) -> Path:
        """Return the home that an environment names."""
        return Path(environment.get(f"{PREFIX}HOME") or _DEFAULTS["home"]).expanduser().absolute()

    @classmethod
    def of_file(cls, text: str, path: Path) -> "Settings":
        """Read what a `config.toml` says by itself, the environment left aside; raise MalformedInput on nonsense."""
        file = read_file(text, path)
        return _build(path.parent, _DEFAULTS | file.values, file.cards)


def _environment(seen: Mapping[str, str]) -> dict[str, str]:
    return {name: seen[key] for name in _DEFAULTS if (key := PREFIX + name.upper()) in seen and seen[key] != ""}


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """What a `config.toml` says: settings by name, and the tables of its cards."""

    values: dict[str, str] = field(default_factory=dict[str, str])
    cards: CardTables = NO_TABLES


def _file(path: Path) -> SettingsFile:
    try:
        return read_file(path.read_bytes().decode(), path)
    except FileNotFoundError:
        return SettingsFile()
    except UnicodeDecodeError as error:
        raise MalformedInput(f"{path} is not UTF-8 text.", "Mend it and try again.") from error


def read_file(text: str, path: Path) -> SettingsFile:
    """Read the text of a `config.toml` that lies at `path`; raise MalformedInput for what no setting can be."""
    import tomllib  # noqa: PLC0415  (slow to load, and most homes have no such file)

    try:
        table: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise MalformedInput(f"{path} is not valid TOML: {error}.", "Mend that line and try again.") from error
    cards = read_card_tables(table.pop("cards", {}), path)
    unknown = sorted(set(table) - set(_DEFAULTS))
    if unknown:
        raise MalformedInput(
            f"{path} has a setting that does not exist: {unknown[0]}.", "`warploom config` lists every setting."
        )
    return SettingsFile({name: str(value) for name, value in table.items()}, cards)


def _number(values: Mapping[str, str], name: str, least: float) -> float:
    try:
        number = float(values[name])
    except ValueError:
        number = float("nan")
    if not least <= number <= 1e9:
        raise MalformedInput(
            f"{name} is {values[name]!r}.", f"Set {PREFIX}{name.upper()} to a number of {least:g} or more."
        )
    return number


def _place(scenario: str | None) -> str | None:
    """Make a file's path hold in the folder of any other process, too."""
    is_file = scenario is not None and scenario.endswith((".yaml", ".yml"))
    return str(Path(scenario).expanduser().absolute()) if scenario is not None and is_file else scenario


def _build(home: Path, values: Mapping[str, str], cards: CardTables) -> Settings:
    def text(name: str) -> str | None:
        return values[name].strip() or None

    def names(name: str) -> tuple[str, ...]:
        return tuple(part.strip() for part in values[name].split(",") if part.strip())

    def seconds(name: str, least: float = 0.05) -> timedelta:
        return timedelta(seconds=_number(values, name, least))

    def minutes(name: str) -> timedelta:
        return timedelta(minutes=_number(values, name, 0))

    scenario = _place(text("fake_scenario"))
    return Settings(
        home=home,
        database_url=text("database_url"),
        redis_url=text("redis_url"),
        url=(text("url") or "").rstrip("/") or None,
        bind=values["bind"],
        port=int(_number(values, "port", 0)),
        key=text("key"),
        operator_key=text("operator_key"),
        allowed_hosts=names("allowed_hosts"),
        agent=text("agent"),
        project=values["project"],
        session=text("session"),
        host_name=values["host_name"],
        fake_gpus=int(_number(values, "fake_gpus", 0)),
        fake_scenario=scenario,
        survey_interval=seconds("survey_seconds"),
        lease_time=minutes("lease_minutes"),
        offer_time=seconds("offer_seconds"),
        missed_offers=int(_number(values, "missed_offers", 1)),
        settle_time=seconds("settle_seconds"),
        foreign_quiet=seconds("foreign_quiet_seconds", 0),
        breaker_failures=int(_number(values, "breaker_failures", 1)),
        breaker_suspicions=int(_number(values, "breaker_suspicions", 1)),
        breaker_time=seconds("breaker_seconds"),
        p0_head_start=minutes("p0_head_start_minutes"),
        p1_head_start=minutes("p1_head_start_minutes"),
        reservation_ahead=timedelta(days=_number(values, "reservation_days", 0)),
        reservation_longest=min(LONGEST, timedelta(hours=_number(values, "reservation_hours", 0.1))),
        reservations_open=int(_number(values, "reservations_open", 0)),
        max_attempts=int(_number(values, "max_attempts", 1)),
        retry_base=seconds("retry_base_seconds"),
        retry_most=seconds("retry_max_seconds"),
        toolsets=read_toolsets(values["toolsets"]),
        capabilities=names("capabilities"),
        event_time=timedelta(days=_number(values, "event_days", 1)),
        streams=int(_number(values, "streams", 1)),
        pool_size=int(_number(values, "pool_size", 2)),
        cards=cards,
        source={**values, "fake_scenario": scenario or ""},
    )


def field_names() -> list[str]:
    """List the settings by attribute, for tests that keep the reference complete."""
    return [entry.name for entry in fields(Settings)]
