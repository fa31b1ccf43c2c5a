"""The policies of WQR-FT: the names of task orders and machine choices, and of the pairs in the paper."""

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
