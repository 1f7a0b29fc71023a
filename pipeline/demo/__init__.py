"""The bundled demo domain: problems, student, exact truth, tiny language model."""

from pathlib import Path

MODEL_PATH = Path(__file__).parent / "model"
"""The folder of the bundled language model, as `save_pretrained` wrote it."""
