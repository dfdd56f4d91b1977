"""What decisions are made of: rules, the snapshot, cached answers. The algorithm is in policy/."""
