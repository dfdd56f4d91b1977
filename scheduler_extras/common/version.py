"""The version of the program, which --version, the User-Agent header and the metrics report."""

VERSION = "1.0.0"
UPSTREAM = "1.20"  # the kube-scheduler that it decides like with a Policy
LATEST = "1.36"  # the one that it decides like with a KubeSchedulerConfiguration
CONFIGURATION_VERSION = "kubescheduler.config.k8s.io/v1"  # a Policy may have it, too
