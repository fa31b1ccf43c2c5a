"""``python -m gridsim`` is the command `gridsim`."""

from gridsim.cli.signals import heed


def main() -> None:
    """Entry point of the command: signals are heeded before all that it needs is imported."""
    heed()
    from gridsim.cli.main import main

    main()


if __name__ == "__main__":
    main()
