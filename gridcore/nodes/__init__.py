"""The message core, which runs node programs over the links and task queues of all machines."""
