"""The Go system's protocol: Connect unary calls in JSON and protobuf."""
