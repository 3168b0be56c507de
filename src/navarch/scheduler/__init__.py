"""The workload scheduler: a snapshot of the cluster in, decisions out.

    result = run_cycle(cluster, config)

A `Session` is one private copy of the cluster. Plugins register opinions on it, actions ask them
and decide through statements that can be undone. Nothing here touches the world.
"""
