"""Draws the rack as lines of text that fit the width of a terminal."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from rich.cells import cell_len
from rich.text import Text

from warploom.cli.answers import when
from warploom.cli.columns import column, cut
from warploom.cli.moments import window_text
from warploom.domain.calibrations import say_record
from warploom.domain.cards import GLYPHS, CardLane, CardState, HostLanes, QueuePlace, Rack, Service, line_up
from warploom.domain.etas import EtaView, EtaWord
from warploom.domain.leases import Holder, Label, LeaseState
from warploom.domain.reservations import ReservationView
from warploom.domain.texts import inert, spoken_duration

LEAST_WIDTH: Final = 60
_STYLES: Final = {
    CardState.FREE: "green",
    CardState.RESERVED: "magenta",
    CardState.LEASED: "cyan",
    CardState.OFFERED: "cyan",
    CardState.SETTLING: "cyan",
    CardState.OVERDUE: "yellow",
    CardState.OCCUPIED: "yellow",
    CardState.FOREIGN: "yellow",
    CardState.GHOST: "yellow",
    CardState.DRAINED: "bright_black",
    CardState.GONE: "bright_black",
}
_FAULT_STYLE: Final = "red"
_UNREADABLE: Final = (CardState.LOST, CardState.BLIND, CardState.GONE)
_STATE_WIDTH: Final = 12
_UUID_SHOWN: Final = 12
_UUID_WIDTH: Final = 80
_LEAST_TITLE: Final = 16
_WIDEST_AGENT: Final = 16
_DEEP: Final = " " * 7
_DOT: Final = " · "
_GAP: Final = "  "
_SECONDS_SHOWN_EXACTLY: Final = 9.95


def screen(rack: Rack, width: int) -> Text:
    """Draw every host with its cards and their queues; what does not fit is shortened, never wrapped into a next line."""
    width = max(width, LEAST_WIDTH)
    lines: list[Text] = []
    for host in rack.hosts:
        lines.append(_host_line(host, rack.at))
        if host.problem:
            lines.append(Text(f"  {cut(host.problem, width - 2)}", "yellow"))
        for lane in host.cards:
            lines.extend(_lane_lines(lane, rack.at, width))
    if not rack.hosts:
        lines.append(Text(cut(rack.next, width)))
    lines.extend(Text(f"notice  {cut(notice, width - 8)}", "yellow") for notice in rack.notices)
    lines.extend(Text(cut(f"estimates  {say_record(each)}", width), "bright_black") for each in rack.calibration)
    return Text("\n").join(lines)


def _host_line(host: HostLanes, now: datetime) -> Text:
    line = Text(f"{inert(host.host):<8}", "bold")
    seconds = max(0.0, (now - host.surveyed_at).total_seconds())
    age = f"{seconds:.1f} s" if seconds < _SECONDS_SHOWN_EXACTLY else spoken_duration(now - host.surveyed_at)
    if host.is_present:
        return line.append(f"surveyed {age} ago", "not bold bright_black")
    return line.append(f"silent for {age}: nothing is granted here", "not bold red")


def _lane_lines(lane: CardLane, now: datetime, width: int) -> list[Text]:
    lines = _card_lines(lane, now, width)
    if lane.state in _UNREADABLE or (lane.holder is None and lane.state is not CardState.FREE):
        lines.append(Text(_DEEP + cut(lane.say, width - len(_DEEP))))
    lines.extend(_queue_lines(lane, now, width))
    if lane.waiting > len(lane.queue):
        lines.append(Text(f"{_DEEP}… and {lane.waiting - len(lane.queue)} more", "bright_black"))
    return lines


def _card_lines(lane: CardLane, now: datetime, width: int) -> list[Text]:
    """One line, or a second one for who and how far where the first has no room for them."""
    state = f"{GLYPHS[lane.state]} {lane.state.value}  "
    name = f"  {lane.index:<2} " + (f"{lane.uuid[:_UUID_SHOWN]:<{_UUID_SHOWN}}{_GAP}" if width >= _UUID_WIDTH else "")
    line = Text(inert(name)).append(f"{state:<{_STATE_WIDTH}}", _STYLES.get(lane.state, _FAULT_STYLE))
    if lane.holder is None:
        return [line.append(_DOT.join([f"for {spoken_duration(now - lane.since)}", *_weight(lane)]))]
    ending = _ending(lane.holder, lane.free)
    line.append(f"{lane.holder.lease}  ")
    room = width - line.cell_len - cell_len(ending) - len(_GAP)
    title, rest = inert(lane.holder.title), _who_and_how_far(lane, lane.holder)
    if min(cell_len(title), _LEAST_TITLE) + cell_len(_DOT + rest) <= room:
        title = cut(title, room - cell_len(_DOT + rest)) + _DOT + rest
        return [line.append(title + _GAP).append(ending, "bright_black")]
    line.append(cut(title, room) + _GAP).append(ending, "bright_black")
    return [line, Text(_DEEP + cut(rest, width - len(_DEEP)))]


def _who_and_how_far(lane: CardLane, holder: Holder) -> str:
    labels = [label.value for label in holder.labels if label is not Label.OVERDUE]
    labels += ["not delivered yet"] if holder.state is LeaseState.OFFERED and holder.delivered is None else []
    labels += [f"runs into {holder.runs_into}"] if holder.runs_into else []
    labels += [lane.service.value] if lane.service is not Service.IN_SERVICE else []
    return _DOT.join(map(inert, [holder.agent, *_steps(holder), *labels, *_weight(lane)]))


def _weight(lane: CardLane) -> list[str]:
    return [] if lane.weight is None else [f"weight {lane.weight:g}"]


def _steps(holder: Holder) -> list[str]:
    if holder.step is None:
        return []
    return [f"{holder.step:,}/{holder.total:,}" if holder.total is not None else f"step {holder.step:,}"]


def _ending(holder: Holder, free: EtaView) -> str:
    if holder.state is LeaseState.OFFERED:
        return f"until {holder.expires_at.astimezone():%H:%M:%S}"
    if free.word is EtaWord.UNKNOWN:
        return "end unknown"
    return f"free {when(free.text)}  {free.word.value}"


def _queue_lines(lane: CardLane, now: datetime, width: int) -> list[Text]:
    """Draw the places of a queue, and what is reserved among them, in order of time."""
    places = dict(zip((place.ticket for place in lane.queue), _place_lines(lane.queue, width), strict=True))
    return [
        places[each.ticket] if isinstance(each, QueuePlace) else _reservation_line(each, now, width)
        for each in line_up(lane.queue, lane.reservations)
    ]


def _reservation_line(reservation: ReservationView, now: datetime, width: int) -> Text:
    title = f"  {inert(reservation.title)}" if reservation.title else ""
    window = window_text(reservation.starts_at, reservation.ends_at, now)
    text = f"{GLYPHS[CardState.RESERVED]}  {reservation.reservation}  {inert(reservation.agent)}  {window}{title}"
    return Text(_DEEP + cut(text, width - len(_DEEP)), _STYLES[CardState.RESERVED])


def _place_lines(queue: Sequence[QueuePlace], width: int) -> list[Text]:
    """Draw the places of a queue in columns; where there is too little room, the titles are shortened."""
    heads = [f"{_DEEP}{place.place:<2} {place.ticket}  " for place in queue]
    agents = column([cut(place.agent, _WIDEST_AGENT) for place in queue])
    waits = column([f"waiting {place.waiting}" for place in queue])
    starts = [_start(place.starts) for place in queue]
    taken = [sum(map(cell_len, parts)) for parts in zip(heads, agents, waits, starts, strict=True)]
    room = width - max(taken, default=0) - 3 * len(_GAP)
    titles = column([cut(place.title, max(room, 4)) for place in queue])
    columns = zip(column(heads), titles, agents, waits, starts, strict=True)
    return [Text(cut(head + _GAP.join(rest), width)) for head, *rest in columns]


def _start(starts: EtaView) -> str:
    known = starts.word is not EtaWord.UNKNOWN
    return f"starts {when(starts.text)}  {starts.word.value}" if known else "start unknown"
