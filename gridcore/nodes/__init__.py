"""The message core: runs node programs, one object a node, over the links and task queues of all machines."""
