"""Where kube-scheduler 1.36 decides differently from 1.20: one file per subject, as in rules/.

Importing this package fills OVERRIDES, the table in registry.py.
"""

import importlib


# Two bugs of kube-scheduler 1.34 to 1.36 are not reproduced. If an extender with nodeCacheCapable false has
# filtered, kube-scheduler scores all nodes as if they were empty. And a pod with required anti-affinity stays
# pending if its namespaceSelector excludes the pod's own namespace with NotIn.

for module in ("resources", "nodes", "spreading", "affinity", "preemption", "volumes"):
    importlib.import_module(f"scheduler_extras.configuration.overrides.{module}")
