"""The HTTP/1.1 client of the whole tree, on h11: over asyncio in `pool`, blocking in `blocking`."""
