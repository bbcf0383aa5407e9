"""The container files fit the product: known settings, health checks everywhere, secrets only from outside."""

import re
import tomllib
from typing import Any

import pytest
import yaml
from checkout import CHECKOUT, text_of

from warploom.config import PREFIX, SETTINGS

COMPOSE: dict[str, Any] = yaml.safe_load(text_of(CHECKOUT / "docker-compose.yml"))
DOCKERFILE = text_of(CHECKOUT / "Dockerfile")
IGNORED = text_of(CHECKOUT / ".dockerignore").split()
KNOWN = {PREFIX + setting.name.upper() for setting in SETTINGS}


def test_the_composed_server_is_given_settings_that_exist() -> None:
    given = {name for name in COMPOSE["services"]["server"]["environment"] if name.startswith(PREFIX)}
    assert given - KNOWN == set()
    assert {"WARPLOOM_DATABASE_URL", "WARPLOOM_REDIS_URL", "WARPLOOM_KEY", "WARPLOOM_OPERATOR_KEY"} <= given


def test_the_image_is_given_settings_that_exist() -> None:
    assert set(re.findall(r"\bWARPLOOM_[A-Z_]+\b", DOCKERFILE)) - KNOWN == set()


def test_secrets_come_from_the_environment_and_have_no_default() -> None:
    text = text_of(CHECKOUT / "docker-compose.yml")
    for name in ("POSTGRES_PASSWORD", "WARPLOOM_KEY", "WARPLOOM_OPERATOR_KEY"):
        assert re.search(rf"\$\{{{name}:\?", text), name
        assert not re.search(rf"\$\{{{name}:-", text), name


@pytest.mark.parametrize("service", COMPOSE["services"])
def test_every_service_has_a_health_check_and_a_version(service: str) -> None:
    about = COMPOSE["services"][service]
    assert "healthcheck" in about or ("build" in about and "HEALTHCHECK" in DOCKERFILE)
    assert "build" in about or re.search(r":\d", about["image"]), about["image"]


def test_nothing_is_published_beyond_this_machine_by_default() -> None:
    published = [port for about in COMPOSE["services"].values() for port in about.get("ports", [])]
    assert published
    assert all(re.match(r"\$\{\w+:-127\.0\.0\.1:", port) for port in published), published


def test_the_image_is_built_from_everything_the_wheel_needs() -> None:
    pyproject = tomllib.loads(text_of(CHECKOUT / "pyproject.toml"))
    wanted = {*pyproject["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"], "src", "requirements"}
    copied = {word for line in re.findall(r"(?m)^COPY (?!--)(.+) \S+$", DOCKERFILE) for word in line.split()}
    assert wanted - copied == set()
    assert copied - {entry.removeprefix("!") for entry in IGNORED if entry.startswith("!")} == set()


def test_the_image_does_not_run_as_an_administrator() -> None:
    (user,) = re.findall(r"(?m)^USER (\S+)$", DOCKERFILE)
    assert user not in ("root", "0")
