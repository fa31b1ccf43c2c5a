"""Wave schedulers: tasks move to hosts whose owners sleep."""
