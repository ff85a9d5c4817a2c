"""Yildiz, Dorier, Ibrahim, Ross, Antoniu (IPDPS 2016): facts Y1 to Y8.

OrangeFS on 12 servers, two programs of 480 processes. I is the time together over the
time alone. A delta graph shows it against the offset between the two starts.
"""

from __future__ import annotations

from functools import cache
from statistics import mean
from typing import TYPE_CHECKING

from papers.figure import Figure, Row, about, between
from papers.platforms import KIB, PLATFORMS

from sluice.sim.storage.discrete_event import MIB, simulate

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ANY = 1e9
EVEN = 0.12
"""Factors that differ by less count as equal: two points of a plot."""

Program = dict[str, float | str]


def contiguous(
    *, sync: bool, processes: float = 480, nodes: float = 30, volume: float = 64 * MIB
) -> Program:
    """Each process one write at rank × volume of a shared file, over all servers."""
    return {
        "processes": processes,
        "nodes": nodes,
        "operation_bytes": volume,
        "stripe_bytes": 64 * KIB,
        "stripe_targets": 12,
        "sync": "flush" if sync else "ack",
    }


def strided(
    *, sync: bool, request: float = 256 * KIB, stripe: float = 64 * KIB, volume: float = 16 * MIB
) -> Program:
    """Each process requests that join to one stream of the shared file.

    A quarter of the paper's volume: ratios of steady states do not depend on it.
    """
    return {
        "processes": 480,
        "nodes": 30,
        "operation_bytes": request,
        "operations": volume // request,
        "stripe_bytes": stripe,
        "stripe_targets": 12,
        "interleaved": 1,
        "sync": "flush" if sync else "ack",
    }


def delta(
    storage: Mapping[str, float], program: Program, offset: float
) -> tuple[float, float, float]:
    """Return the time alone and the factors of the first and the later program.

    The later one starts `offset` times the time alone after the first.
    """
    alone = simulate(storage, [program])[0].seconds
    outcomes = simulate(storage, [program, {**program, "start": offset * alone}])
    first, later = (outcome.seconds / alone for outcome in outcomes)
    return alone, first, later


def _storage(name: str, **changed: float) -> dict[str, float]:
    return PLATFORMS[f"orangefs-{name}"].storage(**changed)


@cache
def _strided(name: str, offset: float, request: float = 256, stripe: float = 64) -> list[float]:
    program = strided(sync="sync" in name, request=request * KIB, stripe=stripe * KIB)
    return list(delta(_storage(name), program, offset))


@cache
def _contiguous(name: str, offset: float, clients: float = 960) -> list[float]:
    program = contiguous(sync="sync" in name, processes=clients / 2, nodes=clients / 32)
    return list(delta(_storage(name), program, offset))


def _lead(storage: Mapping[str, float], program: Program) -> float:
    """Return how much more the first loses than the later one, over the Δ-graph's middle."""
    graph = [delta(storage, program, offset)[1:] for offset in (0.25, 0.5)]
    return mean(first - later for first, later in graph)


@cache
def _contiguous_lead(name: str, clients: float = 960) -> float:
    program = contiguous(sync="sync" in name, processes=clients / 2, nodes=clients / 32)
    return _lead(_storage(name), program)


def _lead_row(where: str, words: str, lead: float) -> Row:
    """Compare with what the paper says of who loses more."""
    low, high = {"the first loses less": (-ANY, -EVEN), "the first loses more": (EVEN, ANY)}.get(
        words, (-EVEN, EVEN)
    )
    return between(f"{where}I of the first less the later's", words, lead, low, high)


def _one_server() -> Iterator[Row]:
    published = {
        "hdd-sync": (13.4, 33.4, 2.49),
        "ssd-sync": (2.27, 4.46, 1.96),
        "ram-sync": (1.32, 2.09, 1.58),
    }
    local = {"servers": 1, "targets": 1, "node_bandwidth": 1e12, "server_bandwidth": 1e12}
    for name, (alone, together, factor) in published.items():
        program = contiguous(sync=True, processes=1, nodes=1, volume=2e9)
        program["stripe_targets"] = 1
        model, first, later = delta(_storage(name, **local), program, 0.0)
        device = name.removesuffix("-sync").upper()
        yield about(f"{device}: alone, s", alone, model, 0.05 * alone)
        yield about(f"{device}: together, s", together, model * max(first, later), 0.05 * together)
        yield about(f"{device}: I", factor, max(first, later), 0.1)


def _triangles() -> Iterator[Row]:
    for name in ("hdd-sync", "ssd-sync", "ram-sync", "hdd", "ram"):
        peak = max(_contiguous(name, 0.0)[1:])
        yield between(f"{name}: I at Δ = 0", "about 2", peak, 1.8, 2.2)
        half = _contiguous(name, 0.5)[2]
        yield between(f"{name}: I of the later at half the time alone", "falls", half, 1.2, 1.8)
    apart = max(_contiguous("hdd-sync", 1.0)[1:])
    yield between("hdd-sync: I of the worse at the time alone", "to 1", apart, 0.9, 1.1)


def _asymmetry() -> Iterator[Row]:
    for name, words in (("hdd-sync", "the first loses less"), ("ram-sync", "symmetric")):
        yield _lead_row(f"{name}: ", words, _contiguous_lead(name))


def _strided_sync_on() -> Iterator[Row]:
    hdd, ssd, ram = (max(_strided(f"{d}-sync", 0.0)[1:]) for d in ("hdd", "ssd", "ram"))
    yield between("I with HDD less with SSD", "more", hdd - ssd, 0.1, ANY)
    yield between("I with HDD less with RAM", "more", hdd - ram, 0.1, ANY)


def _strided_sync_off() -> Iterator[Row]:
    hdd, ssd, ram = (max(_strided(d, 0.0)[1:]) for d in ("hdd", "ssd", "ram"))
    yield between("I with HDD less with SSD", "equal", hdd - ssd, -EVEN, EVEN)
    yield between("I with HDD less with RAM", "equal", hdd - ram, -EVEN, EVEN)


ONE_WRITER = contiguous(sync=True, processes=30, nodes=30, volume=16 * 64 * MIB)


def _one_writer_alone() -> Iterator[Row]:
    storage = _storage("hdd-sync")
    ratio = simulate(storage, [ONE_WRITER])[0].seconds / _contiguous("hdd-sync", 0.0)[0]
    yield between("time alone over that of 16 writers", "faster", ratio, 0, 0.98)
    yield _lead_row("", "symmetric", _lead(storage, ONE_WRITER))


def _one_writer_together() -> Iterator[Row]:
    many = _contiguous("hdd-sync", 0.0)[1:]
    one = delta(_storage("hdd-sync"), ONE_WRITER, 0.0)[1:]
    change = max(one) - max(many)
    yield between("I less that of 16 writers", "less interference", change, -ANY, -0.1)


def _slow_links_sync_off() -> Iterator[Row]:
    storage = _storage("hdd", node_bandwidth=125e6)
    for offset in (0.0, 0.5):
        _, first, later = delta(storage, contiguous(sync=False), offset)
        yield between(f"I at Δ = {offset:g} T", "flat", max(first, later), 0.9, 1.1)


def _slow_links_sync_on() -> Iterator[Row]:
    storage = _storage("hdd-sync", node_bandwidth=125e6)
    program = contiguous(sync=True)
    peak = max(delta(storage, program, 0.0)[1:])
    yield between("I at Δ = 0", "the same peak", peak, 1.8, 2.2)
    yield _lead_row("", "symmetric", _lead(storage, program))


def _split_servers() -> Iterator[Row]:
    for name in ("hdd-sync", "hdd"):
        storage, program = _storage(name), contiguous(sync="sync" in name)
        left = {**program, "target_count": 6, "stripe_targets": 6}
        alone = simulate(storage, [program])[0].seconds
        half = simulate(storage, [left])[0].seconds
        apart = simulate(storage, [left, {**left, "first_target": 6}])
        yield between(f"{name}: alone on 6 over alone on 12", "slower", half / alone, 1.1, 2.2)
        worst = max(outcome.seconds for outcome in apart) / half
        yield between(f"{name}: I on 6 + 6", "no interference", worst, 0.9, 1.1)


def _sharing_is_slower() -> Iterator[Row]:
    storage, program = _storage("hdd-sync"), strided(sync=True)
    left = {**program, "target_count": 6, "stripe_targets": 6}
    shared, split = (
        max(outcome.seconds for outcome in simulate(storage, programs))
        for programs in ([program] * 2, [left, {**left, "first_target": 6}])
    )
    yield between(
        "strided: together on 12 over 6 + 6", "slower in some cases", shared / split, 1.01, 2
    )


def _stripes_alone_sync_off() -> Iterator[Row]:
    alone = {stripe: _strided("hdd", 0.0, stripe=stripe)[0] for stripe in (64, 128, 256)}
    for less, more in ((64, 128), (128, 256)):
        ratio = alone[more] / alone[less]
        yield between(f"time alone, stripe {more} KiB over {less} KiB", "faster", ratio, 0, 0.98)


def _stripes_sync_off() -> Iterator[Row]:
    factor = max(_strided("hdd", 0.0, stripe=64)[1:])
    yield between("I, stripe 64 KiB", "interference", factor, 1.3, 2.2)
    for stripe in (128, 256):
        factor = max(_strided("hdd", 0.0, stripe=stripe)[1:])
        yield between(f"I, stripe {stripe} KiB", "seems gone", factor, 0.9, 1.15)


def _stripes_sync_on() -> Iterator[Row]:
    alone = {stripe: _strided("hdd-sync", 0.0, stripe=stripe)[0] for stripe in (64, 128, 256)}
    for less, more in ((64, 128), (128, 256)):
        ratio = alone[more] / alone[less]
        yield between(f"time alone, stripe {more} KiB over {less} KiB", "faster", ratio, 0, 0.9)
    for stripe in (64, 128, 256):
        factor = max(_strided("hdd-sync", 0.0, stripe=stripe)[1:])
        yield between(f"I, stripe {stripe} KiB", "stays", factor, 1.7, 2.4)


def _ordered_service() -> Iterator[Row]:
    program = strided(sync=True)
    for name in ("hdd-sync", "ssd-sync"):
        free, ordered = (
            max(delta(_storage(name, ordered=o), program, 0.0)[1:]) for o in (0.0, 1.0)
        )
        yield between(f"{name}: I with all servers in one order over I without", "less",
                      ordered / free, 0, 0.95)  # fmt: skip


def _requests_sync_off() -> Iterator[Row]:
    for request in (64, 128):
        factor = max(_strided("hdd", 0.0, request=request)[1:])
        yield between(f"I, requests of {request} KiB", "no interference", factor, 0.9, 1.15)
    for request in (256, 512):
        factor = max(_strided("hdd", 0.0, request=request)[1:])
        yield between(f"I, requests of {request} KiB", "interference", factor, 1.3, 2.2)
    alone = [_strided("hdd", 0.0, request=request)[0] for request in (64, 128, 256, 512)]
    for i, request in enumerate((64, 128)):
        yield between(f"time alone, {request} KiB over 512 KiB", "far from the best",
                      alone[i] / alone[-1], 1.3, ANY)  # fmt: skip
    best = min(alone) / alone[-1]
    yield between("best time alone over that of 512 KiB", "large is best", best, 0.98, 1)


def _requests_sync_on() -> Iterator[Row]:
    for request in (64, 128, 256, 512):
        _, first, later = _strided("hdd-sync", 0.25, request=request)
        name = f"requests of {request} KiB"
        yield between(f"I of the later, {name}", "a triangle", later, 1.5, 2.0)
        yield between(
            f"I of the first less the later's, {name}", "fair", first - later, -EVEN, EVEN
        )


def _small_requests_best() -> Iterator[Row]:
    small, large = (_strided("hdd-sync", 0.0, request=request)[0] for request in (64, 512))
    yield between("time alone, 64 KiB over 512 KiB", "best when small", small / large, 0, 0.95)


def _incast() -> Iterator[Row]:
    for clients in (704, 960):
        lead = _contiguous_lead("hdd-sync", clients)
        yield _lead_row(f"{clients} clients: ", "the first loses less", lead)
    yield _lead_row("RAM, 960 clients: ", "symmetric", _contiguous_lead("ram-sync"))


def _few_clients() -> Iterator[Row]:
    for clients in (64, 128):
        peak = max(_contiguous("hdd-sync", 0.0, clients)[1:])
        yield between(f"{clients} clients: I at Δ = 0", "contend", peak, 1.8, 2.2)
        lead = _contiguous_lead("hdd-sync", clients)
        yield _lead_row(f"{clients} clients: ", "only the devices", lead)


def _reversal() -> Iterator[Row]:
    for clients in (256, 512):
        lead = _contiguous_lead("hdd-sync", clients)
        yield _lead_row(f"{clients} clients: ", "the first loses more", lead)


def _platforms(*names: str) -> tuple[str, ...]:
    return tuple(f"orangefs-{name}" for name in names)


_ALL = _platforms("hdd-sync", "ssd-sync", "ram-sync", "hdd", "ssd", "ram")

FIGURES = (
    Figure(
        "Y1",
        "One server, two one-process programs of 2 GB",
        "A disk turns between two streams, a slice each; flash does not; memory serves two "
        "processes faster than one process can produce. The speeds alone and one seek are fitted.",
        _ALL[:3],
        _one_server,
    ),
    Figure(
        "Y2a",
        "Contiguous writes on 12 servers: Δ-graphs",
        "480 streams a server seek alone already, so two programs only share: a triangle with "
        "peak 2 on every device.",
        _ALL,
        _triangles,
    ),
    Figure(
        "Y2b",
        "The Δ-graph of HDD with sync on is asymmetric",
        "The flows of the first program hold the servers' places; later ones are refused until "
        "some have ended, because the disks keep the queues full.",
        _platforms("hdd-sync", "ram-sync"),
        _asymmetry,
    ),
    Figure(
        "Y2c",
        "Strided, sync on: HDD loses more than SSD and RAM",
        "Alone, strided requests join to one stream; two programs are two streams, and only disks "
        "seek and commit slowly enough to be full.",
        _ALL[:3],
        _strided_sync_on,
    ),
    Figure(
        "Y2d",
        "Strided, sync off: no difference between devices",
        "The servers' memory takes the volume; the device behind it does not show.",
        _ALL[3:],
        _strided_sync_off,
    ),
    Figure(
        "Y3a",
        "One writer a node: faster alone, and symmetric",
        "Fewer streams seek less, and too few flows are open to be refused.",
        _platforms("hdd-sync"),
        _one_writer_alone,
    ),
    Figure(
        "Y3b",
        "One writer a node: less interference",
        "In the model 30 writers keep the disks as full as 480 do, so two programs take twice as "
        "long with either. To interfere less they would have to leave the disks idle alone, and "
        "nothing that is known limits them: their links carry 20 times what the disks take.",
        _platforms("hdd-sync"),
        _one_writer_together,
    ),
    Figure(
        "Y4a",
        "Clients on 1 GbE, sync off: the Δ-graph is flat",
        "30 nodes of 1 GbE bring a quarter of what 12 servers on 10 GbE take: each program is "
        "limited at its source. (With the servers on 1 GbE too it would be a triangle.)",
        _platforms("hdd"),
        _slow_links_sync_off,
    ),
    Figure(
        "Y4b",
        "Clients on 1 GbE, sync on: same peak, symmetric again",
        "The disks are still full, but sources slower than the ports lose no packets, so nobody "
        "is refused, and equal flows get equal turns at the disks.",
        _platforms("hdd-sync"),
        _slow_links_sync_on,
    ),
    Figure(
        "Y5a",
        "6 + 6 servers: slower alone, no interference",
        "Half of the stations, and none shared.",
        _platforms("hdd-sync", "hdd"),
        _split_servers,
    ),
    Figure(
        "Y5b",
        "Together on 12 can be slower than apart on 6 + 6",
        "Sharing adds seeks between the programs' streams that splitting avoids.",
        _platforms("hdd-sync"),
        _sharing_is_slower,
    ),
    Figure(
        "Y6a",
        "Stripe 64 to 256 KiB, sync off: interference seems gone",
        "Fewer servers a request are fewer flows for the same bytes: the servers' work for flows "
        "falls below half of the time.",
        _platforms("hdd"),
        _stripes_sync_off,
    ),
    Figure(
        "Y6b",
        "Stripe 64 to 256 KiB, sync on: faster alone, interference stays",
        "Fewer flows are fewer syncs, but the disks stay full.",
        _platforms("hdd-sync"),
        _stripes_sync_on,
    ),
    Figure(
        "Y6c",
        "Stripe 64 to 256 KiB, sync off: faster alone",
        "Connections stall, each for a time of its own, and a request waits for the longest of "
        "its servers': the fewer they are, the shorter that is.",
        _platforms("hdd"),
        _stripes_alone_sync_off,
    ),
    Figure(
        "Y6d",
        "The paper's reason for Y6: servers that serve in one order interfere less",
        "Order alone changes nothing in the model (SSD): each process has one request "
        "outstanding, and long queues keep every server busy whatever the order, so the programs' "
        "ends follow from the work. On disks strict turns between two programs add a seek each.",
        _platforms("hdd-sync", "ssd-sync"),
        _ordered_service,
    ),
    Figure(
        "Y7a",
        "Requests of 64 to 512 KiB, sync off",
        "Small requests spend their time in round trips, which nobody shares; large ones keep "
        "the servers full.",
        _platforms("hdd"),
        _requests_sync_off,
    ),
    Figure(
        "Y7b",
        "Requests of 64 to 512 KiB, sync on: fair at all sizes",
        "The disks are full at every size, and requests outstanding are equal.",
        _platforms("hdd-sync"),
        _requests_sync_on,
    ),
    Figure(
        "Y7c",
        "Requests of 64 to 512 KiB, sync on: best alone when small",
        "In the model the same bytes in the same stripes are the same syncs, and the disks are "
        "full at every size. Work that grows with the servers of a request would be needed, and "
        "with sync off, where large requests are best (Y7a), there is none.",
        _platforms("hdd-sync"),
        _small_requests_best,
    ),
    Figure(
        "Y8a",
        "The first program gains with 704 and 960 clients, on HDD only",
        "Above a number of flows a server whose disk keeps its queue full refuses the later ones.",
        _platforms("hdd-sync", "ram-sync"),
        _incast,
    ),
    Figure(
        "Y8b",
        "With 256 to 512 clients the first program loses more",
        "Below the collapse flows of the model keep equal windows, which are equal turns at the "
        "disks: neither loses more. The paper supposes that windows of both shrink; for this the "
        "first one's would have to shrink more, and it does not say why they should.",
        _platforms("hdd-sync"),
        _reversal,
    ),
    Figure(
        "Y8c",
        "With few clients only the devices contend",
        "Nobody is refused, and two programs share the disks by halves.",
        _platforms("hdd-sync"),
        _few_clients,
    ),
)
