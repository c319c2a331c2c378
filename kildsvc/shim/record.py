"""The memfd that outlives a crash of the shim: who runs, how it ended, and the ring of recent output.

systemd keeps it in the unit's file descriptor store. The shim reads the terminal straight into it, so a SIGKILL
between two instructions loses no byte; the waiter writes the agent's wait status into it, so no exit is missed.
"""

import errno
import mmap
import os

HEADER = 4096
MAGIC = 0x3144524F444C494B  # "KILDORD1"

# Words of the header: 64-bit stores are atomic on every machine systemd runs on.
(
    MAGIC_WORD,
    PHASE,
    WAITER_PID,
    AGENT_PID,
    WAIT_STATUS,
    EXEC_ERRNO,  # why the agent could not be executed
    EXEC_STAGE,
    READ,  # bytes of output taken from the terminal in this run
    FLUSHED,  # of these, journaled
    LINE,  # where the unfinished line of readable text starts
    FLAGS,
    EXEC_USEC,  # CLOCK_MONOTONIC, when the agent was executed
    END_USEC,  # CLOCK_REALTIME
    RING_SIZE,
    START,  # output can be replayed from here, with …
    NOTE_SIZE,  # … so many bytes about it (JSON) …
    PINNED,  # … and so many of before the switch to the alternate screen
    DEADLINE_USEC,  # CLOCK_MONOTONIC, when its time is over; 0 when that is not limited
    OOM_TOLD,  # processes killed for want of memory, of those that were told of
) = range(19)
RUN_AT, RUN_MAX = 256, 64  # the run id, as text
NOTE_AT, NOTE_MAX = 512, HEADER - 512
PIN_MAX = 128 * 1024

# Phases. Between FORKING and RUNNING an agent may or may not exist.
EMPTY, FORKING, RUNNING, ENDED = range(4)
# Flags.
READY, STOPPING, RECORDED, TIMED_OUT, FAILED = 1, 2, 4, 8, 16

# One read of a PTY master returns at most 4095 bytes (the line discipline's buffer).
READ_MAX = 4096
# What an area is filled with before the kernel reads into it: 0xff never occurs in UTF-8, so after a crash
# the bytes that arrived, and were not counted yet, can be told from those that did not.
FILL = b"\xff" * READ_MAX


class Record:
    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.map = mmap.mmap(fd, os.fstat(fd).st_size)
        self.view = memoryview(self.map)
        self.words = self.view[:HEADER].cast("Q")
        if self.words[MAGIC_WORD] != MAGIC:
            raise ValueError("not a record of this version")
        self.size = self.words[RING_SIZE]
        self.ring = self.view[HEADER : HEADER + self.size]
        self.pin = self.view[HEADER + self.size :]
        self.end: int = self.words[READ]

    @classmethod
    def create(cls, run: str, ring_size: int) -> "Record":
        fd = os.memfd_create("kild-record", os.MFD_CLOEXEC)
        os.ftruncate(fd, HEADER + ring_size + PIN_MAX)
        with mmap.mmap(fd, HEADER) as head:
            words = memoryview(head).cast("Q")
            words[RING_SIZE] = ring_size
            words[MAGIC_WORD] = MAGIC
            words.release()
            head[RUN_AT : RUN_AT + RUN_MAX] = run.encode().ljust(RUN_MAX, b"\0")
        record = cls(fd)
        record._prepare()
        return record

    @property
    def run(self) -> str:
        return bytes(self.view[RUN_AT : RUN_AT + RUN_MAX]).rstrip(b"\0").decode()

    @property
    def start(self) -> int:
        """Offset of the oldest byte still in the ring."""
        return max(0, self.end - (self.size - READ_MAX))

    def flag(self, bit: int) -> bool:
        return bool(self.words[FLAGS] & bit)

    def set_flag(self, bit: int) -> None:
        self.words[FLAGS] |= bit

    def _area(self) -> tuple[int, int]:
        at = self.end % self.size
        return at, min(READ_MAX, self.size - at)

    def _prepare(self) -> None:
        at, room = self._area()
        self.ring[at : at + room] = FILL[:room]

    def read_from(self, fd: int) -> int:
        """Takes what the terminal has into the ring; 0 when there is nothing."""
        at, room = self._area()
        try:
            count = os.readv(fd, [self.ring[at : at + room]])
        except BlockingIOError:
            return 0
        except OSError as error:
            if error.errno != errno.EIO:  # what a master says when its other side is hung up and drained
                raise
            return 0
        self._count(count)
        return count

    def _count(self, count: int) -> None:
        # Killed before the store, these bytes are found by recover(); so the next area must be ready by then.
        self.end += count
        self._prepare()
        self.words[READ] = self.end

    def recover(self) -> int:
        """After a crash: counts the bytes that arrived but were not counted. Returns how many."""
        at, room = self._area()
        count = len(bytes(self.ring[at : at + room]).rstrip(b"\xff"))
        self._count(count)
        return count

    def piece(self, offset: int, most: int) -> memoryview:
        """The bytes at that offset, as many as lie in one piece."""
        at = offset % self.size
        return self.ring[at : at + min(most, self.end - offset, self.size - at)]

    def bytes_between(self, start: int, end: int) -> bytes:
        parts = []
        while start < end:
            part = bytes(self.piece(start, end - start))
            parts.append(part)
            start += len(part)
        return b"".join(parts)
