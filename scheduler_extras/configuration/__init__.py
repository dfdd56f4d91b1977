"""KubeSchedulerConfiguration, with the answers of kube-scheduler 1.36. The folder can be deleted."""
