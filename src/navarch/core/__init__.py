"""Values and their laws: nodes, pools, health, money, events. No effects, no clocks."""
