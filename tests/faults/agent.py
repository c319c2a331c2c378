"""An agent that counts aloud. Told what to do by lines typed to it, or by a file: `exit CODE`, `say WORD`.

What it was told to say it also writes to a file, for those who must know before the journal does.
"""

import os
import select
import subprocess
import sys
import termios
import time


def main() -> None:
    order_file, pause = sys.argv[1], float(sys.argv[2])
    mode = termios.tcgetattr(0)
    mode[3] &= ~termios.ECHO
    termios.tcsetattr(0, termios.TCSANOW, mode)
    child = subprocess.Popen(["sleep", "100000"])
    number, typed = 0, b""
    while True:
        number += 1
        # A count that stays, and a line that is drawn over.
        os.write(1, b"c%d\n~%d at work\r" % (number, number))
        if child.poll() is not None:
            child = subprocess.Popen(["sleep", "100000"])
        until = time.monotonic() + pause
        while select.select([0], [], [], max(0.0, until - time.monotonic()))[0]:
            typed += os.read(0, 4096)
        orders, _, typed = typed.rpartition(b"\n")
        lines = orders.splitlines()
        if number % 8 == 0 and os.path.exists(order_file):
            with open(order_file, "rb") as file:
                lines.append(file.read())
        for line in lines:
            word, _, rest = line.strip().partition(b" ")
            if word == b"exit":
                with open(f"{order_file}.last", "w") as file:
                    file.write(str(number))
                os._exit(int(rest))
            if word == b"say":
                os.write(1, b"s%s\n" % rest)
                with open(f"{order_file}.heard", "ab") as file:
                    file.write(b"%s\n" % rest)


main()
