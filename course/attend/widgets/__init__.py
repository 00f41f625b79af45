"""Widgets: pictures that answer while you move something, one idea each.

Every widget is a pure `draw(state) -> str` (HTML holding SVG) behind a few ipywidgets controls, so
that a picture can be tested, printed and shown where no kernel runs (`.static()`). Sliders take
the arrow keys.
"""

from attend.widgets.alignment import alignment_matrix
from attend.widgets.cells import cell as cell_diagram
from attend.widgets.cells import unrolled as unrolled_network
from attend.widgets.curve_memory import curve_memory
from attend.widgets.delta_explorer import delta_explorer
from attend.widgets.depth import depth_thermometer
from attend.widgets.dk import dk_explorer
from attend.widgets.drag_query import drag_query
from attend.widgets.explorer import attention_explorer
from attend.widgets.fading_memory import fading_gates, fading_memory
from attend.widgets.flash_charts import peak_chart, traffic_chart
from attend.widgets.frequency_map import frequency_map
from attend.widgets.gradient import gradient_explorer
from attend.widgets.head_surgery import head_surgery
from attend.widgets.heads import head_explorer
from attend.widgets.kernel_shapes import kernel_shapes
from attend.widgets.kit.view import View
from attend.widgets.knock import knock
from attend.widgets.kv_cache import kv_cache_calculator
from attend.widgets.learning_to_look import Moment, learning_to_look
from attend.widgets.look_back import look_back
from attend.widgets.mask_painter import mask_painter
from attend.widgets.matrix_memory import matrix_memory
from attend.widgets.memory_viewer import memory_viewer
from attend.widgets.program_tiles import program_tiles
from attend.widgets.rope_dial import rope_dial
from attend.widgets.row_writers import row_writers
from attend.widgets.score_memory import score_memory
from attend.widgets.semiseparable import semiseparable
from attend.widgets.table import attention_table
from attend.widgets.the_cheat import the_cheat
from attend.widgets.tile_stepper import tile_stepper
from attend.widgets.wall_of_clocks import wall_of_clocks
from attend.widgets.what_is_kept import TEXTS as WHAT_IS_KEPT
from attend.widgets.what_is_kept import what_is_kept

__all__ = [
    "WHAT_IS_KEPT",
    "Moment",
    "View",
    "alignment_matrix",
    "attention_explorer",
    "attention_table",
    "cell_diagram",
    "curve_memory",
    "delta_explorer",
    "depth_thermometer",
    "dk_explorer",
    "drag_query",
    "fading_gates",
    "fading_memory",
    "frequency_map",
    "gradient_explorer",
    "head_explorer",
    "head_surgery",
    "kernel_shapes",
    "knock",
    "kv_cache_calculator",
    "learning_to_look",
    "look_back",
    "mask_painter",
    "matrix_memory",
    "memory_viewer",
    "peak_chart",
    "program_tiles",
    "rope_dial",
    "row_writers",
    "score_memory",
    "semiseparable",
    "the_cheat",
    "tile_stepper",
    "traffic_chart",
    "unrolled_network",
    "wall_of_clocks",
    "what_is_kept",
]
