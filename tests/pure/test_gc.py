"""gc decides: what lives, comes back, or ended lately is never touched."""

import math
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kildsvc import model
from kildsvc.model import Metadata, Session
from kildsvc.operations.gc import why_kept
from kildsvc.quantity import ttl

calm = settings(suppress_health_check=[HealthCheck.too_slow])
times = st.none() | st.floats(0, 1e10)
sessions = st.builds(
    Session,
    name=st.just("a"),
    state=st.sampled_from([*model.STATES, "", "new"]),
    unit=st.sampled_from(["", "kild-a.service"]),
    started=times,
    ended=times,
    last_output=times,
    last_input=times,
    exit_code=st.none() | st.integers(0, 255),
)
metadatas = st.none() | st.builds(
    Metadata,
    name=st.just("a"),
    argv=st.just(["a"]),
    executable=st.just("a"),
    agent=st.just("a"),
    cwd=st.just("/"),
    created=st.floats(0, 1e10),
    wanted=st.booleans(),
)
# As it stands in model.py, so that a mistake in the one is not in the other.
UNTOUCHABLE = {"starting", "running", "stopping", "paused", "orphaned"}
BY_ITSELF = {"exited", "killed", "oom", "timeout"}


LONG_AFTER = 3e10  # all that is drawn above was over long before


@settings(calm, max_examples=500)
@given(sessions, metadatas)
def test_what_lives_or_comes_back_is_kept_for_ever(session: Session, metadata: Metadata | None) -> None:
    if not why_kept(session, metadata, LONG_AFTER, 0):
        assert session.state in model.STATES and session.state not in UNTOUCHABLE
        assert session.state in BY_ITSELF or not metadata or not metadata.wanted, "it would have come back"


@calm
@given(sessions, metadatas, st.floats(0, 1e10), st.floats(0, 1e9) | st.just(math.inf))
def test_what_ended_lately_is_kept(session: Session, metadata: Metadata | None, now: float, ttl: float) -> None:
    if not why_kept(session, metadata, now, ttl):
        known = [at for at in (session.started, session.ended, session.last_output, session.last_input) if at]
        assert known and all(now - at > ttl for at in known), "it ended lately, or nobody knows when"
        assert ttl != math.inf


@calm
@given(sessions, metadatas, st.sampled_from(sorted(BY_ITSELF)), st.floats(1, 1e10))
def test_what_is_over_does_not_stay(session: Session, metadata: Metadata | None, state: str, ended: float) -> None:
    session = replace(session, state=state, ended=ended)
    assert not why_kept(session, metadata, LONG_AFTER, 1e10)


def test_how_long_is_told_in_days_or_never() -> None:
    assert ttl("30d") == 30 * ttl("24h") == 30 * 86400e6
    assert ttl("never") == math.inf
    for mistake in ("", "nevr", "1y", "-1d"):
        with pytest.raises(ValueError):
            ttl(mistake)
