"""What people write for a limit, and what systemd is told."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kildsvc import limits
from kildsvc.errors import UsageError

G = 1 << 30


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("memory", "4G", 4 * G),
        ("memory", "1.5G", G * 3 // 2),
        ("memory", "512M", G // 2),
        ("memory", "64MiB", 64 << 20),
        ("memory", "1T", 1 << 40),
        ("memory", "4096", 4096),
        ("memory", "25%", 4 * G),
        ("memory_high", "infinity", None),
        ("swap", "0", 0),
        ("cpu", "200%", 2_000_000),
        ("cpu", "12.5%", 125_000),
        ("cpu_weight", "50", 50),
        ("tasks", "500", 500),
        ("runtime", "2h", 7_200_000_000),
        ("runtime", "1.5s", 1_500_000),
        ("nice", "19", 19),
        ("nofile", "4096", 4096),
    ],
)
def test_values(name: str, text: str, value: int | None) -> None:
    assert limits.read({name: text}, memory=16 * G) == {name: value}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("memory", "4X", "--memory: '4X' is not a size such as 512M or 4G"),
        ("memory", "", "--memory: '' is not a size"),
        ("memory", "0", "'0' is too little"),
        ("memory", "-1G", "'-1G' is not a size"),
        ("memory", "120%", "'120%' is not a share such as 80%"),
        ("memory_high", "0%", "--memory-high: '0%' is not a share"),
        ("swap", "50%", "--swap: '50%' is not a size"),
        ("cpu", "2", "'2' is not a share such as 50%, or 200% for two CPUs"),
        ("cpu_weight", "0", "'0' is not a weight from 1 to 10000"),
        ("io_weight", "10001", "--io-weight: '10001' is not a weight"),
        ("tasks", "0", "'0' is not a number of tasks"),
        ("tasks", "many", "'many' is not a number of tasks"),
        ("runtime", "0", "'0' is too short"),
        ("runtime", "soon", "'soon' is not a duration"),
        ("nice", "-5", "'-5' is not a niceness from 0 to 19; below 0 is for root"),
        ("nofile", "3", "'3' is not a number of files"),
        ("speed", "1", "there is no limit 'speed'"),
    ],
)
def test_mistakes_are_told_in_one_line(name: str, text: str, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        limits.read({name: text}, memory=G)
    assert message in raised.value.message
    assert "\n" not in raised.value.message


def test_properties_of_the_unit() -> None:
    asked = {"memory": "1G", "swap": "infinity", "cpu": "50%", "runtime": "1h", "nice": "5", "nofile": "100"}
    assert limits.properties(limits.read(asked, memory=G)) == [
        ("MemoryMax", "t", G),
        ("MemorySwapMax", "t", 2**64 - 1),
        ("CPUQuotaPerSecUSec", "t", 500_000),
        ("RuntimeMaxUSec", "t", 3_600_000_000),
    ]


@pytest.mark.parametrize(
    ("text", "value"),
    [("max\n", None), ("", None), ("67108864\n", 64 << 20), ("max 100000\n", None), ("20000 100000\n", 20.0)],
)
def test_what_the_kernel_tells(text: str, value: float | None) -> None:
    assert limits.told(text) == value


def test_the_weight_of_disks_comes_before_that_of_single_ones() -> None:
    assert limits.told("default 50\n8:0 300\n") == 50


@given(st.sampled_from(sorted(limits.TABLE)), st.text(max_size=40))
def test_any_text_is_a_value_or_a_mistake(name: str, text: str) -> None:
    try:
        (value,) = limits.read({name: text}, memory=16 * G).values()
    except UsageError as error:
        assert error.message
    else:
        assert value is None or 0 <= value < 2**64
