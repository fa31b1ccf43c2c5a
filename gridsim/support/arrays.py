"""Types of arrays, for annotations."""

from gridcore.common.arrays import Bools as Bools
from gridcore.common.arrays import Floats as Floats
from gridcore.common.arrays import Integers as Integers
from gridcore.common.arrays import Rows as Rows
