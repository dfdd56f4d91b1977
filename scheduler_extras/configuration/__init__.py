"""KubeSchedulerConfiguration, with the answers of kube-scheduler 1.36. The folder can be deleted.

Importing this package fills OVERRIDES with what differs for 1.36, and adds the reader to READERS.
"""

import importlib

for module in ("plugins", "volumes", "reading"):
    importlib.import_module(f"scheduler_extras.configuration.{module}")
