"""The rim: stages, Prefect flows and the command line."""
