"""The sampler seam and the engines behind it."""
