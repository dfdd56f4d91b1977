"""KubeSchedulerConfiguration, with the answers of kube-scheduler 1.36. The folder can be deleted.

Whoever imports this package has what stands in for rules in OVERRIDES, and the reader in READERS.
"""

import importlib

for module in ("plugins", "volumes", "reading"):
    importlib.import_module(f"scheduler_extras.configuration.{module}")
