from typing import final

__all__ = ["Payloads"]

@final
class Payloads:
    def __new__(cls) -> Payloads: ...
