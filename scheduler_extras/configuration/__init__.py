"""KubeSchedulerConfiguration, with the answers of kube-scheduler 1.36. The folder can be deleted.

Importing this package loads the overrides for 1.36, and adds the reader to READERS.
"""

import importlib


for module in ("overrides", "config_file"):
    importlib.import_module(f"scheduler_extras.configuration.{module}")
