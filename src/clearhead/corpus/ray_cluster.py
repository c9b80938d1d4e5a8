"""The Ray cluster that work runs on."""

import os
from typing import Any


def connect_ray(*, show_output: bool = False) -> None:
    """Connect to the cluster at RAY_ADDRESS; without it, start a local Ray on the loopback interface.

    `show_output` prints what the processes on the cluster print.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    address = os.environ.get("RAY_ADDRESS")
    if not address:
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # bind to loopback on any system
    import ray

    if ray.is_initialized():
        return
    options: Any = {"logging_level": "ERROR", "log_to_driver": show_output}
    options["logging_config"] = ray.LoggingConfig(log_level="ERROR")  # of Ray's own processes
    if address:
        ray.init(address=address, **options)
    else:
        ray.init(include_dashboard=False, **options)
