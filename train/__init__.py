"""Training a process reward model on labels, and scoring with it."""
