"""A workload system in virtual time: jobs that wait, run, save their work and lose it."""
