"""Kinds of API objects: which group and version each resource belongs to.

api/watch.py builds paths from it; live/object_store.py checks names against it.
"""


CORE = [  # resources of api/v1
    "configmaps", "endpoints", "events", "limitranges", "namespaces", "nodes", "persistentvolumeclaims",
    "persistentvolumes", "pods", "podtemplates", "replicationcontrollers", "resourcequotas", "secrets",
    "serviceaccounts", "services"]
GROUPS = {  # resource -> its group and version
    **dict.fromkeys(CORE, "api/v1"), **dict.fromkeys(["replicasets", "statefulsets"], "apis/apps/v1"),
    **dict.fromkeys(["storageclasses", "csinodes", "csidrivers", "csistoragecapacities", "volumeattachments"],
                    "apis/storage.k8s.io/v1")}
