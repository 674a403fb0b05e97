"""What the flow becomes after long times: slow branches, ageing states, interpolation thresholds."""
