"""The mesh of the processes of a run: copies of the model x shards of its weights x parts of its blocks."""

from dataclasses import dataclass, replace

from clearhead.distributed.ranks import Distributed


@dataclass(frozen=True, kw_only=True)
class ParallelConfig:
    """How the processes of a run share the model (`parallel` of a recipe). Their product is the number of processes."""

    data: int = 1  # copies of the model, each of which is sharded (HSDP)
    shard: int | None = None  # processes that divide weights and optimizer state (FSDP2); None: all that are left
    tensor: int = 1  # processes that divide the heads and the inner width of each block (tensor parallelism)

    def __post_init__(self) -> None:
        for name in ("data", "shard", "tensor"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"parallel.{name} is {value}: it must be at least 1")

    @property
    def processes(self) -> int:
        """The number of processes, or the smallest one if `shard` is not given."""
        return self.data * (self.shard or 1) * self.tensor

    def sizes(self, processes: int) -> tuple[int, int, int]:
        """Return data, shard and tensor for so many processes, whose product they are."""
        given = f"parallel is {{data: {self.data}, shard: {self.shard or 'not given'}, tensor: {self.tensor}}}"
        if self.shard is not None and self.processes != processes:
            raise ValueError(
                f"{given}, which needs {self.processes} processes, but the run has {processes}: start "
                f"{self.processes}, for example with --processes {self.processes}, or change parallel"
            )
        if processes % self.processes:
            raise ValueError(
                f"{given}, but the run has {processes} processes, which is no multiple of {self.processes}: start "
                f"{self.processes}, for example with --processes {self.processes}, or change parallel"
            )
        return self.data, processes // (self.data * self.tensor), self.tensor


def arrange(distributed: Distributed, config: ParallelConfig) -> Distributed:
    """Return the ranks of a run as they share its model; ValueError if their number does not fit the mesh."""
    data, _, tensor = config.sizes(distributed.size)
    return replace(distributed, copies=data, tensor=tensor)
