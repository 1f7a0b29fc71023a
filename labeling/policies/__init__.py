"""How many more rollouts a prefix needs, one policy a module; papers in their docstrings."""
