"""Templates for `navarch sim new`."""

FLEET = """\
# Two machines, one of which loses a GPU. Run it: navarch sim run {name}.yaml
name: {name}
description: A GPU falls off the bus, and the node is taken out of service.

fleet:
  - {{id: node-1, provider: gcp, region: us-central1, zone: us-central1-a, gpu_count: 8}}
  - {{id: node-2, provider: gcp, region: us-central1, zone: us-central1-b, gpu_count: 8}}

events:
  - {{at: 0s, action: start_fleet}}
  - at: 30s
    action: inject_failure
    target: node-1
    params: {{failure_type: xid_error, xid_code: 79, gpu_index: 3}}
  - {{at: 30s, action: wait_for_status, target: node-1, params: {{expected_status: unhealthy}}}}

assertions:
  - {{type: node_status, target: node-2, expected: active}}
  - {{type: figure, target: detection.max_s, expected: "<= 10"}}
  - {{type: figure, target: false_cordons, expected: "== 0"}}
"""

POOL = """\
# A pool that the control plane keeps complete. Run it: navarch sim run {name}.yaml
name: {name}
description: A node of a pool breaks, and a new machine takes its place.

providers:
  cloud: {{boot_min: 1m, boot_max: 3m, price_per_hour: 23.92}}

pools:
  training: {{provider: cloud, instance_type: h100-8x, min_nodes: 4, max_nodes: 6}}

jobs:
  - {{name: pretrain, tasks: 3, gpus: 8, at: 5m, duration: 30m, checkpoint_every: 5m}}

duration: 1h

events:
  - at: 20m
    action: inject_failure
    target: training-0
    params: {{failure_type: xid_error, xid_code: 79}}

assertions:
  - {{type: node_count, target: training, expected: "4"}}
  - {{type: figure, target: replacement.max_s, expected: "<= 300"}}
  - {{type: figure, target: goodput.finished, expected: "== 1"}}
  - {{type: figure, target: leaks, expected: "== 0"}}
"""

STRESS = """\
# A hundred machines under chaos. Run it: navarch sim run {name}.yaml --seeds 100
name: {name}
description: A generated fleet, and failures at a rate that holds exactly.

stress:
  duration: 10m
  seed: 1
  fleet_gen:
    total_nodes: 100
    templates:
      - {{name: h100-8gpu, weight: 1, gpu_count: 8, gpu_type: NVIDIA H100 80GB HBM3}}
    startup: {{pattern: linear, duration: 30s}}
  chaos:
    enabled: true
    failure_rate: 20
    cascading: {{enabled: true, probability: 0.1, max_delay: 10s, scope: zone,
                max_affected_percent: 0.1}}
    recovery: {{enabled: true, probability: 0.5, mean_time: 2m}}

assertions:
  - {{type: node_count, target: all, expected: "80"}}
  - {{type: figure, target: false_cordons, expected: "== 0"}}
"""

TEMPLATES = {"fleet": FLEET, "pool": POOL, "stress": STRESS}
