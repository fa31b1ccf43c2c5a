"""``python -m gridsim`` is the command `gridsim`."""

from gridsim.cli import main

main()
