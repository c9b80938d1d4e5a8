"""A plan as lines of text."""

from clearhead.plan.run_plan import Plan


def plan_lines(plan: Plan) -> list[str]:
    """Return the plan as lines of text."""
    hardware = plan.hardware
    lines = [
        f"{plan.parameters:,} parameters on {plan.ranks:,} x {hardware.title}",
        f"  constants: {hardware.source}",
        "",
        f"{'memory of a rank':24}{'at the peak':>14}{'largest':>14}",
    ]
    for kind in ("weights", "gradients", "optimizer", "activations", "gathers"):
        lines.append(f"  {kind:22}{_size(plan.memory[kind]):>14}{_size(plan.largest[kind]):>14}")
    verdict = "fits" if plan.fits else "DOES NOT FIT"
    lines += [f"  {'total':22}{_size(plan.peak):>14}   of {_size(hardware.memory)}: {verdict}", ""]
    lines.append(f"{'a step':24}{'calls':>14}{'sent by a rank':>18}")
    for name, traffic in plan.traffic.items():
        lines.append(f"  {name:22}{int(traffic['calls']):>14,}{_size(traffic['bytes']):>18}")
    lines += [
        f"  {plan.tokens_per_step:,} tokens; at the limits of the hardware {_time(plan.compute_s)} of computation and "
        f"{_time(plan.communication_s)} of communication, which overlap",
        "",
        f"at {plan.efficiency:.0%} of these limits: {plan.tokens_per_second:,.0f} tokens/s, {plan.days:,.1f} days for "
        f"{plan.steps:,} steps ({plan.steps * plan.tokens_per_step / 1e9:,.1f} G tokens)",
    ]
    if plan.cost is not None:
        lines.append(f"cost: {plan.cost:,.0f} at {plan.price:g} an hour for each of {plan.ranks:,}")
    return [*lines, *(f"change: {change}" for change in plan.changes)]


def _size(count: float) -> str:
    """Return a number of bytes in the unit that fits."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:,.2f} {unit}"
    return f"{count:,.0f} B"


def _time(seconds: float) -> str:
    return f"{seconds:,.2f} s" if seconds >= 1 else f"{1e3 * seconds:,.2f} ms"
