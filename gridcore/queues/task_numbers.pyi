from typing import final

__all__ = ["TaskNumbers"]

@final
class TaskNumbers:
    def __new__(cls, machines: int) -> TaskNumbers: ...
