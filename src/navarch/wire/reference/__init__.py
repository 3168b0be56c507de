"""Generated from proto/navarch/navarch.proto, the protocol of the Go system."""
