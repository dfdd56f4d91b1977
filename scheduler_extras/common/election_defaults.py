"""The defaults of leader election, which api/election.py and configuration/ use."""


ELECTION = {"leaseDuration": 15, "renewDeadline": 10, "retryPeriod": 2}  # seconds, as kube-scheduler's
