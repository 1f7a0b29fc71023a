"""The dataset on disk: schemas, journal, snapshot, manifest, problem readers."""
