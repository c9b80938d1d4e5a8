"""Pictures: curves and maps of attention, for paper, page and terminal."""

from clearhead.see.blocks import blocks
from clearhead.see.curves import Curve, Panel, draw_curves
from clearhead.see.figures import plot
from clearhead.see.maps import Map, draw_maps
from clearhead.see.paper import DARK, LIGHT, save
from clearhead.see.records import Given, Record, Stepped, Watched
from clearhead.see.run import scene_of
from clearhead.see.scene import Answer, Axis, Input, Layer, Picture, Scene
from clearhead.see.sight import Sight, look, show
from clearhead.see.tokens import Names, names

__all__ = [
    "DARK",
    "LIGHT",
    "Answer",
    "Axis",
    "Curve",
    "Given",
    "Input",
    "Layer",
    "Map",
    "Names",
    "Panel",
    "Picture",
    "Record",
    "Scene",
    "Sight",
    "Stepped",
    "Watched",
    "blocks",
    "draw_curves",
    "draw_maps",
    "look",
    "names",
    "plot",
    "save",
    "scene_of",
    "show",
]
