"""What a reader should know first: reasons for doubt, the main numbers, and where and when they come from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from xml.etree.ElementTree import Element

from benchmarks.pages.anything import cell
from benchmarks.pages.figure import Section
from benchmarks.pages.files import Result, those
from benchmarks.pages.formats import moment, number, percent, plural, quantile
from benchmarks.pages.markup import details, table, tag
from benchmarks.pages.peers import ordered
from benchmarks.pages.run_shapes import Capacity, Run
from benchmarks.pages.shapes import Limit, Machine, Peers, Proof

BUSY = 2.0
"""Processes ready to run for each core, over a minute or longer: more than a measurement itself makes."""
DIRTY = "-dirty"
Tile = tuple[str, str, str]
"""A number, its unit, and what it is."""


def header(found: Sequence[Result], sections: Sequence[Section]) -> Element:
    whens = sorted(result.origin.when for result in found)
    dates = dict.fromkeys((moment(whens[0]), moment(whens[-1])))
    doubts = [tag("li", doubt) for doubt in warnings(found)]
    box = [tag("aside", tag("h2", "Read this first"), tag("ul", *doubts), class_="doubts")] if doubts else []
    links = [tag("a", section.title, href=f"#{section.id}") for section in sections]
    made = [
        tag("div", tag("b", value), f" {unit}", tag("span", what), class_="tile") for value, unit, what in tiles(found)
    ]
    return tag(
        "header",
        tag("h1", "Benchmarks"),
        tag("p", " to ".join(dates), class_="when"),
        *box,
        _facts(found),
        *([tag("div", *made, class_="tiles")] if made else []),
        tag("nav", *links, aria_label="Contents"),
    )


def warnings(found: Sequence[Result]) -> list[str]:
    """Why numbers may not be the server's, or not comparable; each with the files that it is about."""
    said: dict[str, list[str]] = {}
    for result in found:
        for doubt, where in _doubts(result):
            said.setdefault(doubt, []).append(result.label + where)
    several = [f"{', '.join(labels)}: {doubt}" for doubt, labels in said.items()]
    if len({describe(result.origin.machine) for result in found}) > 1:
        several.append("These results are of different machines: do not compare them.")
    if len({result.origin.commit for result in found}) > 1:
        several.append("These results are of different commits: see the table of files at the end.")
    return several


def _doubts(result: Result) -> Iterator[tuple[str, str]]:
    """Each with the part of the file that it is about, if it is not about all of it."""
    late = dict.fromkeys(name for name, run in _believed(result.found) if run.generator.saturated)
    if late:
        yield (
            "the load generator could not send in time. Latencies include that delay, and the server has seen another "
            "load than it should have.",
            "" if isinstance(result.found, Run | Capacity) else f" ({', '.join(late)})",
        )
    if isinstance(result.found, Capacity) and result.found.limited_by == "generator":
        yield "a rate was missed with a generator that could not send in time: the server may bear more.", ""
    machine, cores = result.origin.machine, len(result.origin.machine.cpus)
    if max(machine.load_average, default=0.0) > BUSY * cores:
        yield f"the machine was busy (more than {BUSY:g} processes a core ready to run): something ran beside it.", ""
    if result.origin.commit is None:
        yield "the code was of no commit.", ""
    elif result.origin.commit.endswith(DIRTY):
        yield "the code differed from its commit (uncommitted changes).", ""


def _believed(found: object) -> Iterator[tuple[str, Run]]:
    """The runs whose numbers the page gives as a server's; a rate that was missed may have been too much for both."""
    if isinstance(found, Run):
        yield found.name, found
    elif isinstance(found, Proof):
        yield from ((run.name, run) for run in found.runs)
    elif isinstance(found, Capacity):
        yield from ((run.name, run) for run in found.confirmed())
    elif isinstance(found, Peers):
        for peer in found.peers:
            confirmed = peer.capacity.confirmed() if peer.capacity else []
            yield from ((peer.name, run) for run in (peer.peak, peer.at_70, *confirmed) if run)


def tiles(found: Sequence[Result]) -> list[Tile]:
    """The main number of each result."""
    made: list[Tile] = []
    for label, proof in those(found, Proof):
        kept = sum(claim.kept for claim in proof.claims)
        made.append((str(kept), f"of {len(proof.claims)}", f"promises kept ({label})"))
    for label, search in those(found, Capacity):
        made.append(
            (number(search.capacity_per_s), "/s", f"most requests with p99 within {search.slo_ms:g} ms ({label})")
        )
    for label, run in those(found, Run):
        share = percent(run.good / run.offered if run.offered else None)
        if run.callers:
            made.append((number(run.answered_per_s), "/s", f"answers, {run.load} ({label})"))
        elif run.refused_ms:
            offered = number(run.offered / run.seconds)
            made.append((number(run.goodput_per_s), "/s", f"goodput of {offered}/s offered ({label})"))
        else:
            p99 = quantile(run.latency_ms.p99, 0.99, run.answered)
            made.append((p99, "ms", f"p99, {run.load}; {share} within {run.slo_ms:g} ms ({label})"))
    for _, limit in those(found, Limit):
        made += [(number(f.cpu_ms), "ms", f"CPU an item at the least, {f.name} {f.precision}") for f in limit.root]
    for _, contest in those(found, Peers):
        measured = [peer for peer in ordered(contest) if peer.cpu_ms]
        ours, others = [p for p in measured if p.ours], [p for p in measured if not p.ours]
        if ours and others and ours[0].cpu_ms and others[0].cpu_ms:
            ratio = number(ours[0].cpu_ms / others[0].cpu_ms)
            made.append(
                (
                    ratio,
                    "×",
                    f"CPU of {ours[0].name} to that of {others[0].name}, the best peer ({contest.model} model)",
                )
            )
    return made


def describe(machine: Machine) -> str:
    memory = f", {machine.memory_gb:g} GB" if machine.memory_gb else ""
    return f"{machine.cpu}, {plural(len(machine.cpus), 'core')}{memory}, {machine.system}"


def _facts(found: Sequence[Result]) -> Element:
    """Machine, versions, commit and seeds; several where results differ."""
    origins = [result.origin for result in found]
    versions = sorted({f"{name} {version}" for o in origins for name, version in o.machine.versions.items()})
    seeds = sorted({str(o.seed) for o in origins if o.seed is not None}, key=lambda seed: (len(seed), seed))
    facts = {
        "Machine": dict.fromkeys(describe(o.machine) for o in origins),
        "Commit": dict.fromkeys(short(o.commit) for o in origins),
        "Versions": versions,
        "Seeds": seeds,
    }
    return tag("dl", *(part for name, values in facts.items() if values for part in _fact(name, ", ".join(values))))


def short(commit: str | None) -> str:
    """A commit as people write it."""
    if commit is None:
        return "none"
    return commit.removesuffix(DIRTY)[:10] + (" with changes" if commit.endswith(DIRTY) else "")


def _fact(name: str, value: str) -> tuple[Element, Element]:
    return tag("dt", name), tag("dd", value)


def files(found: Sequence[Result]) -> Section:
    """Where each number comes from, and how to repeat it."""
    rows, given = [], []
    for result in found:
        o = result.origin
        load = ", ".join(f"{value:.1f}" for value in o.machine.load_average)
        rows.append([result.label, o.command, moment(o.when), short(o.commit), cell(o.seed), load])
        used = [[key, cell(value)] for key, value in o.arguments.items() if value is not None]
        given.append(table(f"{result.label}: {o.command}", ["argument", "value"], used))
    head = ["file", "command", "when", "commit", "seed", "load average (1, 5, 15 min)"]
    parts = [table("Files", head, rows, left=4), details("Arguments of each command", *given)]
    return Section("files", "Files", [tag("div", *parts, class_="card")])
