"""Plays sluice-feed: sends the files of a directory by name, one a request, then hangs.

A file that holds `end` ends it instead, with a last word on standard error.
"""

import os
import struct
import sys
import time
from pathlib import Path

answers = sorted(Path(sys.argv[1]).glob("[0-9]*"))
while request := os.read(0, 8):
    what, number = struct.unpack("=II", request)
    if what == 32:  # ASK_CHANGES: so many bytes follow
        os.read(0, number)
    if not answers:
        time.sleep(600)
    path = answers.pop(0)
    data = path.read_bytes()
    path.unlink()  # a stand-in that is started later takes the next
    if data == b"end":
        sys.exit("error: out of luck")
    while data:
        data = data[os.write(1, data) :]
