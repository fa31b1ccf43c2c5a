"""Texts of the decisions of DGS_ASAP, which `gridcore.dgs.decision_log` records."""

from gridsim.results.decisions import DecisionTexts

_START = "a start at", "s"
#: Texts of the decisions (`Scheduler.decision_words`).
WORDS: DecisionTexts = {
    "asked": ("asked machine {machine} to search, of {among} that it knew", "", ""),
    "opened": (
        "opened {tasks} of its neighbours one by one: too few of {among} were free in the first slot left",
        "machines free:",
        "",
    ),
    "answered": ("answered machine {machine} on {tasks} tasks, after a look at {among} machines", *_START),
    "unreached": ("answered machine {machine} that it had reached too few", "machines reached:", ""),
    "dropped": ("dropped the answer of machine {machine}: a commit would have come too late", *_START),
    "chose": ("chose the answer of machine {machine}, of {among}, and asked its machines to commit", *_START),
    "refused": ("refused machine {machine}: another job had the time", *_START),
    "refused-late": ("refused machine {machine}: the start was past", *_START),
    "released": ("released the {tasks} machines that had committed, as not all did", "commits:", ""),
    "placed": ("placed {tasks} tasks: all machines had committed", *_START),
    "searched-again": ("searched again at once: no answer was left", "searches in a row:", ""),
    "waited": ("waited before the next search: no answer was left", "the time for it:", "s"),
    "waited-for-room": ("waited before the next search: too few were reached", "the time for it:", "s"),
    "waited-for-machines": ("waited before the next search: no machine was up", "the time for it:", "s"),
    "gave-up-too-large": ("gave up: no search had reached enough machines", "machines reached:", ""),
    "gave-up": ("gave up: all searches were in vain", "searches in a row:", ""),
    "overdue": ("waited no longer for what had not come", "messages missing:", ""),
    "moved": ("moved all {tasks} tasks to an earlier start: all machines had committed", *_START),
    "missed": ("missed a machine and started all {tasks} tasks again", "machines lost:", ""),
    "gave-up-too-late": ("gave up: no start was left that meets the deadline", *_START),
    "called-off": ("cancelled it, as its user wanted", "machines that held it:", ""),
    "extended": ("extended its slots, which it outlives: {among} other jobs must move", "an end at", "s"),
    "displaced": (
        "searched anew for {tasks} machines: one keeps a job that outlives its slots",
        "machines lost:",
        "",
    ),
}
