"""Visualization: attention pages, figures, line plots and terminal output."""

from clearhead.viz.captured_run import CapturedRun, look, show
from clearhead.viz.figures import plot
from clearhead.viz.heatmaps import Heatmap, draw_heatmaps
from clearhead.viz.image_scene import ImageScene
from clearhead.viz.line_plots import Curve, Panel, draw_curves
from clearhead.viz.matrices import draw_matrix
from clearhead.viz.method_scene import method_scene
from clearhead.viz.record_scene import record_scene
from clearhead.viz.scene import Scene, SceneAnswer, SceneAxis, SceneInput, SceneLayer
from clearhead.viz.sources import AttentionSource, Captured, CapturedSteps, Precomputed
from clearhead.viz.style import DARK, LIGHT, save
from clearhead.viz.terminal import draw_blocks
from clearhead.viz.token_labels import TokenLabels, token_labels

__all__ = [
    "DARK",
    "LIGHT",
    "AttentionSource",
    "Captured",
    "CapturedRun",
    "CapturedSteps",
    "Curve",
    "Heatmap",
    "ImageScene",
    "Panel",
    "Precomputed",
    "Scene",
    "SceneAnswer",
    "SceneAxis",
    "SceneInput",
    "SceneLayer",
    "TokenLabels",
    "draw_blocks",
    "draw_curves",
    "draw_heatmaps",
    "draw_matrix",
    "look",
    "method_scene",
    "plot",
    "record_scene",
    "save",
    "show",
    "token_labels",
]  # fmt: skip
