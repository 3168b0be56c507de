"""Judgements about hardware: pure, given what was reported."""
