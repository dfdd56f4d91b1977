"""What decisions are made of: rules, the snapshot, cached answers, calling rules; policy/ has the algorithm."""
