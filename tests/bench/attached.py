"""Somebody is attached: a key's echo, a flood, and the first screen."""

from __future__ import annotations

import statistics
import time
import zlib
from collections.abc import Callable
from contextlib import ExitStack

from bench.figures import BARE, Goal, Row
from bench.measure import ANSWERS, MARKER, Client, interleaved, make_output, milliseconds
from bench.peers import COLS, MULTIPLEXERS, ROWS, WORK, Peer, call
from bench.start import bare
from kildsvc.screen import Screen

# Occurs in none of the escape sequences that tmux and screen draw with.
KEY = b"&"


def echo(quick: bool) -> list[Row]:
    """The kernel's terminal echoes, not a program: nothing but the way through the multiplexer is measured."""
    figures: dict[str, list[float]] = {}
    with ExitStack() as stack:
        actions: dict[str, Callable[[], float]] = {}
        for peer in MULTIPLEXERS:
            call(*peer.opening("echo", "sh", "-c", f"{ANSWERS} exec cat >/dev/null"))
            stack.callback(peer.close, "echo")
            client = stack.enter_context(Client(peer.joining("echo")))
            client.join_in()
            client.type(b"go\r")
            client.drain(quiet_sec=0.5)
            actions[peer.name] = _typist(client)
        figures = interleaved(500 if quick else 4000, actions)
    row = Row("echo", "key echo through attach", "ms", figures)
    row.aim_ratio("tmux", 2, word="median ")
    row.aim_ratio("tmux", 2, row.worst, "p99 ")
    row.notes.append("the kernel's own echo on the agent's terminal: no program but the multiplexers is in the way")
    return [row]


def _typist(client: Client) -> Callable[[], float]:
    typed = 0

    def key() -> float:
        nonlocal typed
        typed += 1
        if typed % 60 == 0:  # the line is full; and the terminal holds no more than 4095 bytes of one
            client.type(b"\r")
            client.drain(quiet_sec=0.02)
        client.drain()
        start = time.perf_counter()
        client.type(KEY)
        while KEY not in client.read():
            pass
        return (time.perf_counter() - start) * 1000

    return key


def through(quick: bool) -> list[Row]:
    """From the key that starts the flood to its last byte at the client, whose bytes are counted and summed up."""
    path = make_output(20 if quick else 100)
    shown = path.read_bytes().replace(b"\n", b"\r\n")  # by the agent's terminal
    sent = len(shown), zlib.crc32(shown)
    arrived: dict[str, list[tuple[int, int]]] = {peer.name: [] for peer in MULTIPLEXERS}

    def flood(peer: Peer) -> float:
        # A session of its own each time: budgets that an earlier flood has spent would be spared otherwise.
        agent = f"stty -echo; {ANSWERS} cat {path}; exec sleep 1000"
        call(*peer.opening("through", "sh", "-c", agent))
        with Client(peer.joining("through")) as client:
            client.join_in()
            start = time.perf_counter()
            client.type(b"go\r")
            arrived[peer.name].append(client.take_until(MARKER))
            rate = len(shown) / (time.perf_counter() - start) / 1e6
        peer.close("through")
        return rate

    actions = {peer.name: _bound(flood, peer) for peer in MULTIPLEXERS}
    row = Row("through", f"{len(shown) / 1e6:.0f} MB through attach", "MB/s", interleaved(3 if quick else 7, actions))
    row.aim_ratio("tmux", 2)
    row.aim_ratio("dtach", 0.8)
    for name, runs in arrived.items():
        if set(runs) == {sent}:
            row.notes.append(f"{name}: every byte arrived, in every run: counted, and the checksum compared")
        else:
            share = statistics.median(count for count, _ in runs) / sent[0]
            row.notes.append(f"{name}: {100 * share:.0f} % as many bytes arrived as were printed")
    row.notes.append("tmux and screen draw screens, and may leave out what was on none of them for long enough")
    whole = set(arrived["kildsvc"]) == {sent}
    row.goals.append(Goal("all bytes delivered", "yes" if whole else "no", whole))
    return [row]


def _bound(action: Callable[[Peer], float], peer: Peer) -> Callable[[], float]:
    return lambda: action(peer)


def first_screen(quick: bool) -> list[Row]:
    """From the start of the client to the read after which the screen is the agent's, letter by letter."""
    lines = [f"line {number:04d} of what the agent has printed so far" for number in range(1000)]
    expected = lines[-ROWS:]
    (WORK / "lines").write_text("\n".join(lines))
    agent = f"stty -echo; cat {WORK / 'lines'}; exec sleep 1000"

    def join(peer: Peer) -> float:
        with Client(peer.joining("screen")) as client:
            screen = Screen(ROWS, COLS)
            while screen.text() != expected:
                data = client.read()
                now = time.perf_counter()
                screen.feed(data)
            return (now - client.started) * 1000

    peers = [peer for peer in MULTIPLEXERS if peer.name != "dtach"]
    with ExitStack() as stack:
        for peer in peers:
            call(*peer.opening("screen", "sh", "-c", agent))
            stack.callback(peer.close, "screen")
        actions = {peer.name: _bound(join, peer) for peer in peers}
        figures = interleaved(5 if quick else 20, {**actions, BARE: lambda: milliseconds(*bare())})
    row = Row("screen", "attach → first correct screen", "ms", figures)
    row.aim("≤ tmux + 60 ms, beyond interpreter start", row.beyond() - row.median("tmux"), "ms more", 60)
    row.notes += [
        "the screen is read by a terminal emulator and compared with what the agent printed",
        "dtach keeps no screen: there is none to be correct",
    ]
    return [row]
