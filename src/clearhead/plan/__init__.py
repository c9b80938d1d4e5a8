"""Planning: memory, traffic, time and cost of a run on many processes, before it is started."""

from clearhead.plan.hardware import HARDWARE, Hardware, find_hardware
from clearhead.plan.plan_text import plan_lines
from clearhead.plan.run_plan import Plan, make_plan

__all__ = ["HARDWARE", "Hardware", "Plan", "find_hardware", "make_plan", "plan_lines"]
