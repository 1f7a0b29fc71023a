"""The bundled demo domain: problems, student, exact truth, tiny language model."""
