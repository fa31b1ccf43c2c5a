"""Wave: tasks that move where the owners of hosts sleep."""
