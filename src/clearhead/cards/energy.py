"""Energy of a computation: an estimate from the time and the cores that it took."""

from dataclasses import dataclass

# Electric power of a core that computes, with its memory: the rated power of processors divided by their cores is 4 to
# 5 W for large servers and up to 20 W for desktops. The overhead is that of the building (power usage effectiveness).
CORE_WATTS, CORE_WATTS_RANGE = 10.0, (4.0, 20.0)
OVERHEAD, OVERHEAD_RANGE = 1.3, (1.0, 1.6)


@dataclass(frozen=True, kw_only=True)
class EnergyEstimate:
    """Core-hours of a training run, and the energy that they took: an estimate and its range, not a measurement."""

    core_hours: float
    kwh: float
    low: float
    high: float


def estimate_energy(seconds: float, threads: int) -> EnergyEstimate:
    """Return the energy of a run on a CPU: core-hours x power of a core x overhead of the building."""
    hours = seconds * threads / 3600
    low, high = (hours * CORE_WATTS_RANGE[i] * OVERHEAD_RANGE[i] / 1000 for i in (0, 1))
    return EnergyEstimate(core_hours=hours, kwh=hours * CORE_WATTS * OVERHEAD / 1000, low=low, high=high)
