"""Classic policies that place tasks one by one, such as power of d choices, and work stealing."""
