"""What a site does until a service does it: follow logs and accounting, train, publish.

learn.py LOGS; with SLUICE_CONF and SLURM_CONF in the environment.
"""

import signal
import subprocess
import sys
import time
from pathlib import Path

SLUICE = Path(sys.executable).parent / "sluice"
TRAIN_EVERY = 60.0


def main(logs: str) -> None:
    follower = subprocess.Popen(
        [SLUICE, "ingest", "--follow", "--every", "5", "--workers", "1", logs]
    )
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        while True:
            time.sleep(TRAIN_EVERY)
            begin = time.time()
            done = subprocess.run(
                [SLUICE, "train", "--publish", "--force"],
                capture_output=True,
                text=True,
                check=False,
            )
            print(
                "train",
                done.returncode,
                round(time.time() - begin, 1),
                done.stderr[-2000:],
                flush=True,
            )
    finally:
        follower.terminate()
        follower.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
