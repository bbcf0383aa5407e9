"""`warploom fake`: what happens to fake cards, by hand or from a scenario, while everything runs."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from warploom.cli.options import Json
from warploom.cli.output import emit, note, present, say
from warploom.config import Settings
from warploom.domain.errors import MalformedInput
from warploom.domain.texts import spoken_list

if TYPE_CHECKING:
    from warploom.host.fake_rack import FakeRack
    from warploom.host.fake_scenarios import Scenario

app = typer.Typer(rich_markup_mode=None)
fake = typer.Typer(
    rich_markup_mode=None,
    no_args_is_help=True,
    epilog="Example: warploom fake occupy 0 --user bob --mib 40000 --for 1min",
    help="Make fake cards misbehave, by hand or by a scenario.\n\n"
    "Everything else is real: the host agent sees at its next look what is done here, and the pool, the queues and the "
    "holders follow. Works where WARPLOOM_FAKE_GPUS brought the cards, and never touches a real card or process. "
    "`warploom fake reset` ends it all.",
)
app.add_typer(fake, name="fake")

_CARD = "A card's number, what the rack calls it now (local/0), or its UUID."
CardName = Annotated[str, typer.Argument(help=_CARD, metavar="CARD")]
AnyCard = Annotated[str | None, typer.Argument(help=_CARD, metavar="[CARD]")]
Every = Annotated[bool, typer.Option("--all", "-a", help="The driver as a whole, and so every card.")]
Memory = Annotated[int, typer.Option("--mib", "-m", help="How much memory, in MiB.")]
Span = Annotated[str, typer.Option("--seconds", "-s", help="How long: 20, 20s, 2min; 0 ends it.", metavar="TIME")]


@fake.command(epilog="Example: warploom fake show")
def show(as_json: Json = False) -> None:
    """List the fake cards, and what each is made to do."""
    from warploom.host.fake_rack import rack_lines

    rack = _rack()
    view = rack.view()
    present(view, rack_lines(view), as_json=as_json)
    _note_service(rack, as_json=as_json)


@fake.command(epilog='Example: warploom fake occupy 0 --user bob --command "python train.py" --for 30s')
def occupy(
    card: CardName,
    mib: Memory = 2048,
    user: Annotated[str, typer.Option("--user", "-u", help="Whose it is.")] = "somebody",
    command: Annotated[str, typer.Option("--command", "-c", help="What it is called.")] = "python other.py",
    graphics: Annotated[bool, typer.Option("--graphics", help="Let it draw a screen instead of computing.")] = False,
    lease: Annotated[
        str | None, typer.Option("--lease", help="Let it name this lease, live or ended.", metavar="LEASE")
    ] = None,
    stay: Annotated[
        str | None, typer.Option("--for", help="When it leaves by itself: 30s, 2min.", metavar="TIME")
    ] = None,
    as_json: Json = False,
) -> None:
    """Put a process that nobody started on a card.

    The card leaves the pool until the process is gone for a while; one that names a lease counts as that lease's.
    """
    kind = "graphics" if graphics else "compute"
    wanted = {"mib": mib, "user": user, "command": command, "kind": kind, "lease": lease, "for": stay}
    _do("occupy", card, as_json=as_json, **wanted)


@fake.command(epilog="Example: warploom fake free 0")
def free(card: CardName, as_json: Json = False) -> None:
    """Take invented processes and ghosts off a card.

    Real processes stay.
    """
    _do("free", card, as_json=as_json)


@fake.command(epilog="Example: warploom fake ghost 0 --mib 22000")
def ghost(card: CardName, mib: Memory = 20_480, as_json: Json = False) -> None:
    """Let memory be held by no process; --mib 0 frees it."""
    _do("ghost", card, as_json=as_json, mib=mib)


@fake.command("drain-slowly", epilog="Example: warploom fake drain-slowly 0 --seconds 20")
def drain_slowly(card: CardName, seconds: Span = "30", as_json: Json = False) -> None:
    """Let the memory of processes that end drain over a time."""
    _do("drain-slowly", card, as_json=as_json, seconds=seconds)


@fake.command(epilog="Example: warploom fake linger 0 --seconds 1min")
def linger(card: CardName, seconds: Span = "30", as_json: Json = False) -> None:
    """Let processes that end leave a child on the card.

    It keeps their memory and names their lease, as a data loader does that escaped.
    """
    _do("linger", card, as_json=as_json, seconds=seconds)


@fake.command(epilog="Example: warploom fake lose 1 --silently")
def lose(
    card: CardName,
    silently: Annotated[bool, typer.Option("--silently", help="No error: it is just no longer listed.")] = False,
    as_json: Json = False,
) -> None:
    """Let a card fall off the bus."""
    _do("lose", card, as_json=as_json, silently=silently)


@fake.command(epilog="Example: warploom fake find --all")
def find(card: AnyCard = None, every: Every = False, as_json: Json = False) -> None:
    """Let a lost, blind or hanging card be read again."""
    _do("find", _one_or_all(card, is_every=every), as_json=as_json)


@fake.command(epilog='Example: warploom fake blind --all --reason "the driver was upgraded"')
def blind(
    card: AnyCard = None,
    every: Every = False,
    reason: Annotated[str | None, typer.Option("--reason", "-r", help="What the driver says.")] = None,
    as_json: Json = False,
) -> None:
    """Let the driver fail to read a card, or as a whole."""
    _do("blind", _one_or_all(card, is_every=every), as_json=as_json, reason=reason)


@fake.command(epilog="Example: warploom fake hang 0")
def hang(card: CardName, seconds: Span = "3600", as_json: Json = False) -> None:
    """Let looks at a card hang in the driver."""
    _do("hang", card, as_json=as_json, seconds=seconds)


@fake.command(epilog="Example: warploom fake shuffle 1 0")
def shuffle(
    order: Annotated[
        list[int] | None, typer.Argument(help="The index of each card in turn; by default turned round.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Give the cards other indices, as a restart may."""
    _do("shuffle", as_json=as_json, order=order)


@fake.command(epilog="Example: warploom fake na 0 utilisation process_memory")
def na(
    card: CardName,
    fields: Annotated[
        list[str] | None,
        typer.Argument(
            help="used_mib, utilisation, temperature, processes, process_memory, ecc_errors.", metavar="FIELD..."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Let readings be N/A; without a field, none of them."""
    _do("na", card, as_json=as_json, fields=fields or [])


@fake.command(epilog="Example: warploom fake ecc 1")
def ecc(
    card: CardName,
    errors: Annotated[int, typer.Option("--errors", "-e", help="How many; 0 is a repaired card.")] = 3,
    as_json: Json = False,
) -> None:
    """Let a card have memory errors.

    Whatever starts to use it fails at once, in CUDA's words.
    """
    _do("ecc", card, as_json=as_json, errors=errors)


@fake.command(epilog="Example: warploom fake xid 0 79")
def xid(
    card: CardName,
    number: Annotated[int, typer.Argument(help="NVIDIA's number for it.", metavar="NUMBER")],
    as_json: Json = False,
) -> None:
    """Let the driver tell of a critical error of a card.

    79 is a card that fell off the bus, 48 a memory error, 31 a program's page fault.
    """
    _do("xid", card, as_json=as_json, number=number)


@fake.command(epilog="Example: warploom fake mig 1 --instances 2")
def mig(
    card: CardName,
    instances: Annotated[int, typer.Option("--instances", "-i", help="How many, up to 7; 0 turns MIG off.")],
    as_json: Json = False,
) -> None:
    """Divide a card into MIG instances, or make it whole."""
    _do("mig", card, as_json=as_json, instances=instances)


@fake.command(epilog="Example: warploom fake busy 0 --percent 2")
def busy(
    card: CardName,
    percent: Annotated[
        int | None, typer.Option("--percent", "-p", help="How busy; by default what its processes make of it.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Fix how busy a card is, whoever uses it."""
    _do("busy", card, as_json=as_json, percent=percent)


@fake.command(epilog="Example: warploom fake baseline 0 --mib 400")
def baseline(card: CardName, mib: Memory = 400, as_json: Json = False) -> None:
    """Set what a card uses by itself; --mib 0 is nothing."""
    _do("baseline", card, as_json=as_json, mib=mib)


@fake.command(epilog="Example: warploom fake reset")
def reset(card: AnyCard = None, as_json: Json = False) -> None:
    """Let one card, or all and the driver, behave well.

    Real processes stay where they are.
    """
    _do("reset", card, as_json=as_json)


@fake.command(epilog="Example: warploom fake scenarios")
def scenarios(as_json: Json = False) -> None:
    """List the scenarios that ship with Warploom."""
    from warploom.host.fake_scenarios import shipped_scenarios

    found = shipped_scenarios()
    wide = max(len(scenario.name) for scenario in found)
    facts = [
        {"name": each.name, "sentence": each.sentence, "cards": each.cards, "seconds": each.steps[-1].at}
        for each in found
    ]
    present(facts, [f"{each.name:<{wide}}  {each.sentence}" for each in found], as_json=as_json)


@fake.command(epilog="Example: warploom fake play a-lost-card-comes-back")
def play(
    scenario: Annotated[str, typer.Argument(help="A YAML file, or a name from `warploom fake scenarios`.")],
    check: Annotated[bool, typer.Option("--check", help="Only read it, and say all that is wrong with it.")] = False,
    as_json: Json = False,
) -> None:
    """Play a scenario on the cards, each step at its time.

    All cards behave well first. What the last step leaves stays, also after Ctrl-C: `warploom fake reset` ends it. With
    --json, one object a step.
    """
    from warploom.host.fake_scenarios import find_scenario

    found = find_scenario(scenario)
    if check:
        facts = {"name": found.name, "sentence": found.sentence, "cards": found.cards, "steps": len(found.steps)}
        present(facts, [f"{found.name} is well: {found.sentence}"], as_json=as_json)
        return
    _play(found, as_json=as_json)


def _play(scenario: "Scenario", *, as_json: bool) -> None:
    from warploom.host.fake_actions import Action
    from warploom.host.fake_scenarios import Player

    def tell(at: float, action: Action, text: str) -> None:
        present({"at": at, "action": action.name, "text": text}, [f"{at:6.1f} s  {text}"], as_json=as_json)

    rack = _rack()
    if scenario.cards > rack.count:
        raise MalformedInput(
            f"{scenario.name} needs {scenario.cards} cards; this home has {rack.count}.",
            f"Use a home with WARPLOOM_FAKE_GPUS={scenario.cards}.",
        )
    _note_service(rack, as_json=as_json)
    if not as_json:
        say([scenario.sentence])
    Player(scenario, rack.cards, tell).play()


def _do(name: str, card: str | None = None, *, as_json: bool, **arguments: Any) -> None:
    """Do one action, with the arguments that were given, and tell what it changed."""
    from warploom.host.fake_actions import Unclear, read_action

    rack = _rack()
    given = {key: value for key, value in arguments.items() if value is not None}
    if card is not None:
        given["card"] = rack.number_of(card)
    try:
        action = read_action(name, given)
    except Unclear as unclear:
        raise MalformedInput(f"{spoken_list(unclear.problems)}.", f"`warploom fake {name} --help` shows how.") from None
    text = rack.do(action)
    if as_json:
        touched = set(action.cards(rack.count))
        emit({"action": name, "text": text, "cards": [each for each in rack.view().cards if each.number in touched]})
        return
    say([text])
    _note_service(rack, as_json=as_json)


def _one_or_all(card: str | None, *, is_every: bool) -> str | None:
    if (card is None) is not is_every:
        raise MalformedInput("Either a card or --all must be named.", "For example: warploom fake blind 0.")
    return card


def _rack() -> "FakeRack":
    from warploom.host.fake_rack import FakeRack

    return FakeRack(Settings.load())


def _note_service(rack: "FakeRack", *, as_json: bool) -> None:
    if not rack.is_served and not as_json:
        note("No host agent serves these cards now; `warploom up` starts one, which begins with what is set here.")
