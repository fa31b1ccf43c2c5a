__all__ = ["CONTEXT"]

CONTEXT: tuple[str, ...]
