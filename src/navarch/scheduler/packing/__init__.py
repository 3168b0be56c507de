"""The value of free room to the pods that arrive later: what the foresight policy scores by."""
