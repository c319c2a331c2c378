"""What is news, and what of an agent's text reaches people."""

from dataclasses import replace

import pytest

from kildsvc.model import Event
from kildsvc.operations.notify import TEXT_MAX, news_of

BELL = Event("s=1;i=1", 1.0, "api", "bell", "r", "the agent rang the bell")
ENDED = replace(BELL, event="ended", text="ended: exit 3", status="exited", exit_code=3)


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        (BELL, "bell"),
        (ENDED, "ended"),
        (replace(ENDED, status="dead", exit_code=None), "ended"),
        (replace(ENDED, status="stopped"), None),
        (replace(BELL, event="mark", mark="waiting"), "waiting"),
        (replace(BELL, event="mark", mark="working"), None),
        (replace(BELL, event="mark", mark="bell"), None),
        (replace(BELL, event="opened"), None),
        (replace(BELL, event="idle"), None),
        # Anybody can write to the journal.
        (replace(BELL, name="../../etc/passwd"), None),
        (replace(BELL, name="--help"), None),
        (replace(BELL, name=""), None),
    ],
)
def test_what_people_are_told_of(event: Event, kind: str | None) -> None:
    news = news_of(event)
    assert (news.kind if news else None) == kind


def test_the_text_is_one_line_of_letters() -> None:
    news = news_of(replace(BELL, text="a\0b\x1b[31m\r\nc\u202e" + "x" * 1000))
    assert news and news.text.startswith("a b [31m c x") and news.text.isprintable()
    assert len(news.text) == TEXT_MAX
