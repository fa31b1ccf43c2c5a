"""Entry point of ``python -m gridsim``, which is the command `gridsim`."""

from gridsim.cli.signals import install_handlers


def main() -> None:
    """Run the command line interface, with signal handlers installed before the other imports."""
    install_handlers()
    from gridsim.cli.main import main

    main()


if __name__ == "__main__":
    main()
