#!/usr/bin/python3
"""A stand-in for every agent we know, put on PATH under their names: takes the terminal, shows what it was given.

It leaves its arguments in ~/given.json. STANDIN=late fails after a while without having taken the terminal,
STANDIN=plain never takes it; otherwise what is pasted goes to ~/pasted, and 'q' ends it with code 7.
"""

import json
import os
import re
import signal
import sys
import termios
import tty

if sys.argv[1:] == ["--version"]:
    print(f"{os.path.basename(sys.argv[0])} 1.2.3 (stand-in)")
    raise SystemExit
with open(os.path.expanduser("~/given.json"), "w") as file:
    json.dump([os.path.basename(sys.argv[0]), *sys.argv[1:]], file)
kind = os.environ.get("STANDIN", "")
if kind == "late":
    signal.sigtimedwait([], 0.6)
    print("Error: invalid API key", flush=True)
    raise SystemExit(3)
if kind == "plain":
    signal.pause()
tty.setraw(0, termios.TCSANOW)
os.write(1, b"\x1b[?2004h\x1b[2J\x1b[H> ready\r\n")
typed = b""
while (data := os.read(0, 65536)) != b"q":
    typed += data
    if match := re.search(rb"\x1b\[200~(.*)\x1b\[201~\r", typed, re.DOTALL):
        with open(os.path.expanduser("~/pasted"), "wb") as file:
            file.write(match[1])
        os.write(1, b"working on it\r\n")
        typed = b""
raise SystemExit(7)
