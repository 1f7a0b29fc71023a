"""Test-time use of a process reward model. No torch here."""
