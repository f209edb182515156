"""A servo drive, as somebody would run it first, and as it is configured from hints."""

from pathlib import Path

import upbeat as up

servo = up.load(Path(__file__).parent / "servo.toml")
found = up.configure(servo, tolerance=1e-3, workers=1)
assert found.best is not None
print(f"{found.variants} variants, the best: {found.best.variant}")
for one in found.best.hints:
    print(f"  {one.name}: {one.verdict}")

for name, made in (("before", servo), ("configured", found.improved())):
    print(f"{name}: in the end the load is at {made.run()['load.x'][-1]:.3f} m")
