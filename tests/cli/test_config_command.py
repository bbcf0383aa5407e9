"""`warploom config`: what is in force here, and one line of config.toml changed without touching the others."""

import json
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from scripted_server import Command

from warploom.cli.settings_file import with_setting
from warploom.config import Settings
from warploom.domain.errors import MalformedInput

FILE = """\
# How we share the rack.
lease_minutes = 3   # short: everybody is in one room

project = "vision" # ours
key = 'very-secret'
  agent="ada"
"""


CARDS = """\
[cards.0] # the fast one
weight = 2.0
ignore = [
  "user:root",
]
"""


@pytest.fixture
def file(environment: dict[str, str]) -> Path:
    """The home's config.toml, which is not there yet."""
    home = Path(environment["WARPLOOM_HOME"])
    home.mkdir(mode=0o700)
    return home / "config.toml"


def test_bare_config_shows_as_config_show_does(warploom: Command, file: Path) -> None:
    file.write_text(FILE)
    assert warploom("config").stdout == warploom("config", "show").stdout != ""
    assert json.loads(warploom("config", "--json").stdout) == json.loads(warploom("config", "show", "--json").stdout)


def test_setting_one_keeps_every_other_line_and_comment(warploom: Command, file: Path) -> None:
    file.write_text(FILE)
    file.chmod(0o640)

    done = warploom("config", "set", "lease_minutes", "20")

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"lease_minutes = 20  [{file}]\n")
    assert file.read_text() == FILE.replace("lease_minutes = 3 ", "lease_minutes = 20 ")
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert [entry.name for entry in file.parent.iterdir() if "config" in entry.name] == ["config.toml"]


@pytest.mark.parametrize("text", ["", FILE, FILE.rstrip()])
@pytest.mark.parametrize("name", ["agent", "offer_seconds"])
def test_a_setting_is_written_above_the_tables_of_cards_which_stay_as_they_are(
    warploom: Command, file: Path, text: str, name: str
) -> None:
    file.write_text(f"{text}\n{CARDS}")
    assert warploom("config", "set", name, "7").returncode == 0
    changed = file.read_text()
    assert changed.endswith(CARDS)
    loaded = Settings.of_file(changed, file)
    assert (loaded.source[name], loaded.cards.rules_for(0, "GPU-a").weight) == ("7", 2.0)


def test_the_tables_of_cards_are_shown_and_where_there_is_none_the_defaults(warploom: Command, file: Path) -> None:
    assert "cards.*.weight = 1  [default]" in warploom("config").stdout
    file.write_text(CARDS)
    shown = warploom("config").stdout
    assert "cards.0.weight = 2  [config.toml]" in shown
    assert 'cards.0.ignore = ["user:root"]  [config.toml]' in shown
    entries = {entry["name"]: entry for entry in json.loads(warploom("config", "--json").stdout)}
    assert entries["cards.0.weight"]["value"] == "2"


def test_a_mistake_in_the_table_of_a_card_is_told_by_its_key(warploom: Command, file: Path) -> None:
    file.write_text('[cards.0]\nignore = ["usr:root"]\n')
    done = warploom("config")
    assert done.returncode == 3
    assert done.stderr.startswith(f"cards.0.ignore in {file} has 'usr:root', which is no rule.\n")


def test_a_setting_that_is_not_there_is_added_and_the_file_is_made_private(
    warploom: Command, environment: dict[str, str]
) -> None:
    assert warploom("config", "set", "WARPLOOM_HOST_NAME", "rack-a").returncode == 0
    file = Path(environment["WARPLOOM_HOME"]) / "config.toml"
    assert file.read_text() == 'host_name = "rack-a"\n'
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "WARPLOOM_HOST_NAME = rack-a  [config.toml]" in warploom("config").stdout


def test_a_key_that_is_set_is_never_printed(warploom: Command, file: Path) -> None:
    done = warploom("config", "set", "operator_key", "very-secret")
    again = warploom("config", "set", "operator_key", "very-secret", "--json")
    shown = warploom("config", "show")
    assert file.read_text() == 'operator_key = "very-secret"\n'
    assert "operator_key = (set, not shown)" in done.stdout
    assert "very-secret" not in done.stdout + done.stderr + again.stdout + again.stderr + shown.stdout


@pytest.mark.parametrize(
    ("name", "value", "cause"),
    [
        ("lease_minuets", "5", "Did you mean lease_minutes?"),
        ("home", "/elsewhere", "The home cannot be set"),
        ("cards.0.weight", "2", "What is said of cards is written by hand."),
        ("lease_minutes", "soon", "lease_minutes is 'soon'."),
        ("toolsets", "gpu,nonsense", "'nonsense' is not a toolset."),
        ("agent", "a\nkey = 1", "agent cannot have that value."),
        ("agent", "x" * 1_001, "agent cannot have that value."),
    ],
)
def test_what_no_setting_can_be_is_refused_and_changes_nothing(
    warploom: Command, file: Path, name: str, value: str, cause: str
) -> None:
    file.write_text(FILE)
    done = warploom("config", "set", name, value)
    assert done.returncode == 3
    assert cause in done.stderr
    assert file.read_text() == FILE


def test_an_environment_that_wins_over_the_file_is_mentioned(warploom: Command, file: Path) -> None:
    done = warploom("config", "set", "agent", "ada", WARPLOOM_AGENT="bob")
    assert done.stderr == "WARPLOOM_AGENT is set in this shell and wins over the file.\n"
    assert file.read_text() == 'agent = "ada"\n'


def test_a_linked_file_is_changed_where_it_lies(warploom: Command, file: Path, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles.toml"
    real.write_text(FILE)
    file.symlink_to(real)
    assert warploom("config", "set", "agent", "bob").returncode == 0
    assert file.is_symlink()
    assert real.read_text() == FILE.replace('agent="ada"', 'agent="bob"')


def test_settings_written_at_once_are_all_kept(environment: dict[str, str], file: Path) -> None:
    names = ["lease_minutes", "offer_seconds", "missed_offers", "settle_seconds", "event_days", "max_attempts"]
    running = [
        subprocess.Popen([sys.executable, "-m", "warploom", "config", "set", name, "7"], env=environment)
        for name in names
    ]
    assert [process.wait(60) for process in running] == [0] * len(names)
    assert sorted(file.read_text().splitlines()) == sorted(f"{name} = 7" for name in names)


@pytest.mark.parametrize(
    "text",
    [
        'agent = """\nada\n"""\n',
        'description = """\nagent = 1\n"""\n',
        "agent = ['a', 'b']\n",
        "agent = [",
        "key = 1\nkey = 2\n",
    ],
)
def test_a_file_that_cannot_be_changed_safely_is_left_to_its_owner(text: str) -> None:
    with pytest.raises(MalformedInput):
        with_setting(text, "agent", "bob", Path("config.toml"))


@pytest.mark.parametrize(
    "value", ["", "bob", "it's", 'say "hi"', "back\\slash", "#no comment", "0042", "1.5", "é ü 漢", "true", "[x]"]
)
@pytest.mark.parametrize("text", ["", "agent = 1", 'agent = "a#b" # c\r\nkey = "k"\r\n', "# agent = 3\nport = 1\n"])
def test_what_is_written_is_what_is_read(text: str, value: str) -> None:
    path = Path("config.toml")
    changed = with_setting(with_setting(text, "agent", "first", path), "agent", value, path)
    assert Settings.of_file(changed, path).source["agent"] == value
    assert [line for line in text.splitlines() if not line.startswith("agent")] == [
        line for line in changed.splitlines() if not line.startswith("agent")
    ]
    assert changed.count("# c") == text.count("# c")
