"""Names of the selections of `gridsim.schedulers.wqr.selections`, and of the policies that they make up."""

from __future__ import annotations

ORDERS = ("random", "small", "great")
CHOICES = ("none", "cpu", "avail", "all")

#: The nine policies of the paper: name -> (task order, machine choice).
POLICIES: dict[str, tuple[str, str]] = {
    "WQR-FT": ("random", "none"),
    **{
        f"{order.capitalize()}ET-{choice.capitalize()}Info".replace("None", "No"): (order, choice)
        for choice in CHOICES
        for order in ("small", "great")
    },
}
