from typing import final

@final
class TaskNumbers:
    def __new__(cls, machines: int) -> TaskNumbers: ...
