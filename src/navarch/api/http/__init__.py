"""The HTTP/1.1 server: JSON for people and programs, packed protobuf for heartbeats."""
