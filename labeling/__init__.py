"""Steps, prefix tree, allocation, rollouts and labels."""
