# The public names of charts; `__init__.py` imports them from this list when they are first used.

from .animation.player import Animation as Animation
from .animation.player import animate as animate
from .estimates import bars as bars
from .estimates import boxes as boxes
from .estimates import intervals as intervals
from .estimates import lines as lines
from .estimates import scaling as scaling
from .estimates import waterfall as waterfall
from .gantt_chart import gantt as gantt
from .looks import styles as styles
from .sequences import sequence as sequence
from .studies import comparison as comparison
from .studies import distribution as distribution
from .studies import series as series
from .studies import swept as swept
from .style import COLOURS as COLOURS
from .style import FORMATS as FORMATS
from .style import MAP as MAP
from .style import MARKERS as MARKERS
from .style import figure as figure
from .style import legend as legend
from .style import save as save
from .style import shared_legend as shared_legend
from .style import use_style as use_style
from .trees import traffic as traffic
from .trees import tree as tree
