"""Text in, verdict out: whether a final answer equals the gold answer."""
