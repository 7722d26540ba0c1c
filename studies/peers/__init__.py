"""Compare all algorithms on all shipped and held-out problems: `spec.toml` says how."""
