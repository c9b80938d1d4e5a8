"""Training in several processes: ranks, meshes, sharded models, and what notices that a process is lost."""

from clearhead.distributed.mesh import ParallelConfig, arrange
from clearhead.distributed.ranks import Distributed
from clearhead.distributed.sharding import PeerLost, init_distributed

__all__ = ["Distributed", "ParallelConfig", "PeerLost", "arrange", "init_distributed"]
