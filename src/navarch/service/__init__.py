"""The APIs for operators and agents, in-process."""
