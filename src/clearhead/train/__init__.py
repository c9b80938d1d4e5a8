"""Training: recipes, the training loop, and checkpoints that resume bit for bit."""

from clearhead.train.checkpoint import Checkpoints, Progress
from clearhead.train.loop import NotFinite, TrainingJob, fit
from clearhead.train.recipe import Recipe, make_recipe, read_recipe
from clearhead.train.run import prepare, train
from clearhead.train.signals import Stopped
from clearhead.train.tracking import Tracker
from clearhead.train.training_run import TrainingRun

__all__ = [
    "Checkpoints", "NotFinite", "Progress", "Recipe", "Stopped", "Tracker", "TrainingJob", "TrainingRun", "fit",
    "make_recipe", "prepare", "read_recipe", "train",
]  # fmt: skip
