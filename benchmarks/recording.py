"""What recording costs in memory and time: ROWS × 10 reals into memory, or streamed to a file.

    recording.py ROWS [FILE]

prints one JSON object: the peak memory of this process (bytes), how much of it the run added, the
raw size of the values, and nanoseconds of CPU per value. One measurement per process: a peak never
goes down again, and what an earlier run has freed would hide what a later one needs.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import upbeat as up

COLUMNS = 10


def peak_bytes() -> int:
    """The largest resident size this process has had (not `ru_maxrss`: that one is inherited)."""
    status = Path("/proc/self/status").read_text()
    return 1024 * next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))


def main(rows: int, out: str | None = None) -> None:
    unit = up.Function(outputs={f"y{i}": f"time + 0.1*{i}" for i in range(COLUMNS)})
    scenario = up.Scenario(units={"a": unit})
    up.simulate(scenario, pace=1.0, until=1000.0, out=out)  # loads whatever is loaded lazily
    before, began = peak_bytes(), time.process_time()
    trace = up.simulate(scenario, pace=1.0, until=rows - 1.0, out=out)
    assert len(trace) == rows
    seconds = time.process_time() - began
    values = rows * COLUMNS
    print(
        json.dumps(
            {
                "peak_bytes": peak_bytes(),
                "growth_bytes": peak_bytes() - before,
                "raw_bytes": 8 * values,
                "ns_per_value": seconds / values * 1e9,
            }
        )
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
