"""What a host agent finds out about the machine that it runs on, from files as such machines have them."""

from datetime import timedelta
from pathlib import Path

import pytest

from warploom.domain.errors import ProviderMissing
from warploom.domain.hosts import CardFact
from warploom.domain.limits import WORDS, Limit, say_unnamed, words_of
from warploom.host.limits import find_limits
from warploom.host.probe import Proof, Provider, Reading
from warploom.host.survey import Surveyor

FIRST_NAMESPACE = "pid:[4026531836]"
OWN_NAMESPACE = "pid:[4026532513]"
ROOT = "Name:\tpython\nCapEff:\t000001ffffffffff\n"
NOBODY = "Name:\tpython\nCapEff:\t0000000000000000\n"
CONTAINER_ROOT = "Name:\tpython\nCapEff:\t00000000a80425fb\n"
EVERY_USER = "         0          0 4294967295\n"
SOME_USERS = "         0     100000      65536\n"


class Machine:
    """The root of a file system; by default that of a Linux machine on which root runs the host agent."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.write("proc/self/stat", "1 (python) S")
        self.write("proc/self/status", ROOT)
        self.write("proc/self/uid_map", EVERY_USER)
        self.write("proc/self/mounts", "proc /proc proc rw,nosuid 0 0\n")
        self.write("proc/sys/kernel/osrelease", "6.8.0-45-generic\n")
        self.numbers(FIRST_NAMESPACE)

    def write(self, path: str, text: str = "") -> None:
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)

    def numbers(self, namespace: str | None) -> None:
        place = self.root / "proc/self/ns/pid"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.unlink(missing_ok=True)
        if namespace is not None:
            place.symlink_to(namespace)

    def limits(self) -> list[Limit]:
        return find_limits(self.root, "linux")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


class TestWhereItRuns:
    def test_root_on_a_plain_machine_has_no_limit(self, machine):
        assert machine.limits() == []

    def test_wsl_is_known_by_its_kernel_and_is_no_container(self, machine):
        machine.write("proc/sys/kernel/osrelease", "5.15.153.1-microsoft-standard-WSL2\n")
        machine.numbers(OWN_NAMESPACE)

        assert machine.limits() == [Limit.WSL]

    @pytest.mark.parametrize("mark", [".dockerenv", "run/.containerenv", "nothing"])
    def test_process_numbers_of_its_own_are_a_container_whatever_else_marks_it(self, machine, mark):
        """Casebook C13."""
        machine.numbers(OWN_NAMESPACE)
        machine.write(mark)

        assert machine.limits() == [Limit.CONTAINER]

    def test_a_container_with_the_hosts_process_numbers_knows_every_process(self, machine):
        """Casebook C13."""
        machine.write(".dockerenv")
        machine.write("proc/1/cgroup", "0::/docker/1234\n")

        assert machine.limits() == []

    @pytest.mark.parametrize("group", ["12:pids:/docker/12ab\n", "0::/kubepods.slice/pod1\n", "0::/lxc/box\n"])
    def test_where_its_numbers_cannot_be_read_the_control_group_of_process_1_tells(self, machine, group):
        machine.numbers(None)
        machine.write("proc/1/cgroup", group)

        assert machine.limits() == [Limit.CONTAINER]

    def test_a_machine_without_proc_says_so(self, tmp_path):
        assert Limit.NO_PROC in find_limits(tmp_path, "linux")


class TestWhomItMayRead:
    @pytest.mark.parametrize("status", [NOBODY, CONTAINER_ROOT])
    def test_without_the_capability_other_users_environments_cannot_be_read(self, machine, status):
        machine.write("proc/self/status", status)

        assert machine.limits() == [Limit.OTHER_USERS]

    def test_a_capability_that_counts_among_the_users_of_a_container_alone_is_none(self, machine):
        machine.write("proc/self/uid_map", SOME_USERS)

        assert machine.limits() == [Limit.OTHER_USERS]

    @pytest.mark.parametrize("option", ["hidepid=2", "hidepid=invisible", "hidepid=ptraceable", "hidepid=1,gid=4294"])
    def test_hidden_processes_are_told_of_where_it_may_not_see_them(self, machine, option):
        machine.write("proc/self/mounts", f"proc /proc proc rw,{option} 0 0\n")
        as_root = machine.limits()
        machine.write("proc/self/status", NOBODY)

        assert (as_root, machine.limits()) == ([], [Limit.OTHER_USERS, Limit.HIDDEN_PROCESSES])

    @pytest.mark.parametrize("option", ["hidepid=0", "hidepid=off", "nosuid"])
    def test_a_proc_that_hides_nothing_is_no_limit(self, machine, option):
        machine.write("proc/self/status", NOBODY)
        machine.write("proc/self/mounts", f"proc /proc proc rw,{option} 0 0\n")

        assert machine.limits() == [Limit.OTHER_USERS]


class TestOtherCards:
    def test_amd_cards_are_found_by_what_computes_on_many_lanes(self, machine):
        machine.write("sys/class/kfd/kfd/topology/nodes/0/properties", "cpu_cores_count 16\nsimd_count 0\n")
        processor_only = machine.limits()
        machine.write("sys/class/kfd/kfd/topology/nodes/1/properties", "cpu_cores_count 0\nsimd_count 304\n")

        assert (processor_only, machine.limits()) == ([], [Limit.AMD_CARDS])

    def test_a_driver_for_amd_cards_whose_list_cannot_be_read_counts_as_cards(self, machine):
        machine.write("dev/kfd")

        assert machine.limits() == [Limit.AMD_CARDS]

    def test_an_apple_machine_has_its_own_gpu(self, tmp_path):
        assert find_limits(tmp_path, "darwin") == [Limit.APPLE]


class NoDriver:
    """A provider on a machine without the driver that it asks."""

    def describe(self) -> Provider:
        raise ProviderMissing("no NVIDIA driver found (libnvidia-ml.so.1).", "Everything else works")

    def read(self) -> Reading:
        raise ProviderMissing("no NVIDIA driver found (libnvidia-ml.so.1).", "Everything else works")

    def prove(self, uuid: str) -> Proof:
        return Proof(None, uuid)


class OneCard(NoDriver):
    """A provider of one card."""

    def describe(self) -> Provider:
        return Provider("nvidia", "580.65")

    def read(self) -> Reading:
        return Reading([CardFact("GPU-a", 0, "H200", 1024)])


class TestWhatIsTold:
    @pytest.mark.parametrize(
        ("limit", "sentence"),
        [
            (
                Limit.AMD_CARDS,
                "AMD cards are here, but this version reads only NVIDIA's: they are not listed, and nothing is granted on them. ",
            ),
            (Limit.APPLE, "the GPU of an Apple machine is not shared by this version. "),
        ],
    )
    def test_a_machine_with_other_cards_alone_says_which_and_that_everything_else_works(self, limit, sentence):
        survey = Surveyor(NoDriver(), timedelta(seconds=2), limits=[limit, Limit.OTHER_USERS]).look()

        assert survey.problem == f"{sentence}Everything else works; try WARPLOOM_FAKE_GPUS=2 warploom up"
        assert (survey.cards, survey.limits) == ([], ["other_users"])

    def test_a_machine_with_both_kinds_serves_those_that_it_can_read(self):
        survey = Surveyor(OneCard(), timedelta(seconds=2), limits=[Limit.AMD_CARDS]).look()

        assert (len(survey.cards), survey.problem, survey.limits) == (1, None, ["amd_cards"])

    def test_each_limit_has_its_words_and_names_nothing_destructive(self):
        assert set(WORDS) == set(Limit)
        said = " ".join(f"{words.text} {words.fix}" for words in WORDS.values()).lower()
        assert not [word for word in ("kill", "reset", "delete", "rm ") if word in said]

    def test_a_code_of_a_newer_version_is_passed_over(self):
        assert words_of(["from_the_future", "wsl"]) == [WORDS[Limit.WSL]]
        assert say_unnamed(["from_the_future", "other_users"]) is None
