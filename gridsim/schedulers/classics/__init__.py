"""The classic policies of queueing theory for placing tasks: random, power of d choices, join the shortest queue."""
