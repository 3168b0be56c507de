"""The catalogue: GPU machines of many clouds, with hardware and list prices."""
