"""The simulated world around the control plane: machines, agents, faults, and laws."""
