"""Pictures: curves and maps of attention, for paper, page and terminal."""

from clearhead.see.blocks import blocks
from clearhead.see.curves import Curve, Panel, draw_curves
from clearhead.see.maps import Map, draw_maps
from clearhead.see.paper import save

__all__ = ["Curve", "Map", "Panel", "blocks", "draw_curves", "draw_maps", "save"]
