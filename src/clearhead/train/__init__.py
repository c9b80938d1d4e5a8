"""Training: recipes, the loop, checkpoints that resume to the bit, and the proof that they do."""

from clearhead.train.checkpoint import Checkpoints, Progress
from clearhead.train.loop import Job, NotFinite, fit
from clearhead.train.recipe import Recipe, make_recipe, read_recipe
from clearhead.train.run import Run, prepare, train
from clearhead.train.stop import Stopped
from clearhead.train.tracking import Tracker

__all__ = [
    "Checkpoints",
    "Job",
    "NotFinite",
    "Progress",
    "Recipe",
    "Run",
    "Stopped",
    "Tracker",
    "fit",
    "make_recipe",
    "prepare",
    "read_recipe",
    "train",
]
