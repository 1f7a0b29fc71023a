"""The spine: records, configuration, errors, the sampler seam and the bundled demo."""
