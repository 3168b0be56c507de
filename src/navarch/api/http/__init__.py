"""The HTTP/1.1 door: JSON for people and programs, packed protobuf for heartbeats."""
