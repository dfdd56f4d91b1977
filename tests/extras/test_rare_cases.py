"""What the golden cases lack. The answers are those of kube-scheduler 1.20.2's own framework to the same objects."""

from helpers import extras
from helpers.everything import scheduler
from helpers.extras import claim, csi_node, node, pod, remembering, storage_class, table, volume

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
ZONES = {"a": "east", "b": "east", "c": "west"}
WEB = {"app": "web"}


def machine(name, **allocatable):
    """A node with the labels that cloud providers set."""
    thing = node(name, labels={ZONE: ZONES[name], HOST: name})
    thing["status"]["allocatable"] |= allocatable
    return thing


NODES = [machine(name) for name in ZONES]


def requirement(operator, *values, key="gen"):
    return {"key": key, "operator": operator, "values": list(values)}


def term(*requirements):
    return {"matchExpressions": list(requirements)}


def affinity(required=None, preferred=()):
    """A spec with node affinity: a required one, and preferred terms or (weight, term) pairs."""
    weighed = [one if isinstance(one, tuple) else (1, one) for one in preferred]
    return {"affinity": {"nodeAffinity": {
        **({} if required is None else {"requiredDuringSchedulingIgnoredDuringExecution": required}),
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": weight, "preference": preference} for weight, preference in weighed]}}}


def near(selector):
    """A spec that must be in a zone with pods that a selector selects."""
    return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": ZONE, "labelSelector": selector}]}}}


def service(selector):
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "default"}, "spec": {
        "ports": [{"port": 80}], **({} if selector is None else {"selector": selector})}}


def mounting(*claims, disks=()):
    """A pod with these claims, and with EBS disks."""
    return pod("p", volumes=[
        {"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims] + [
        {"name": name, "awsElasticBlockStore": {"volumeID": name}} for name in disks])


def on_nitro(count, label="beta.kubernetes.io/instance-type"):
    """A pod with so many disks, and a node of AWS's Nitro."""
    return mounting(disks=[f"disk-{i}" for i in range(count)]), [node("a", labels={label: "m5.large"})]


SET_ASIDE = {"claimRef": {"namespace": "default", "name": "data"}}
LOCAL = storage_class("local")
LONG = "a-driver-whose-name-has-forty-characters"
NO_VOLUMES = "0/3 nodes are available: 3 node(s) didn't find available persistent volumes to bind."
EMPTY = "for 'in', 'notin' operators, values set can't be empty"
NO_NUMBER = "for 'Gt', 'Lt' operators, the value must be an integer"
INVALID = 'invalid label value: "-1": at key: "gen"'  # kube-scheduler adds what label values look like
ALL = ["a", "b", "c"]

# {a sentence: the Policy's entry or its name, the pod, what else there is, and the answer}
# The answer: the nodes that fit, each node's score, or the message that the pod gets.
CASES = {
    "required node affinity without terms": (
        "MatchNodeSelector", pod("p", **affinity({})), [],
        "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity."),
    "a requirement that some label be greater than two numbers": (
        "MatchNodeSelector", pod("p", **affinity({"nodeSelectorTerms": [term(requirement("Gt", "1", "2"))]})), [],
        "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity."),
    "preferences of which one is invalid": (
        "NodeAffinityPriority",
        pod("p", **affinity(preferred=[term(requirement("In", "-1")), term(requirement("Exists"))])), [],
        f'running Score plugins: plugin "NodeAffinity" failed with: {INVALID}'),
    "preferences of which two are invalid, each in its way": (
        "NodeAffinityPriority",
        pod("p", **affinity(preferred=[term(requirement("In", "-1")), term(requirement("Gt", "x"))])), [],
        f'running Score plugins: plugin "NodeAffinity" failed with: [{INVALID}, {NO_NUMBER}]'),
    "preferences that are invalid in the same way": (
        "NodeAffinityPriority", pod("p", **affinity(preferred=[term(requirement("NotIn", "-1"))] * 2)), [],
        f'running Score plugins: plugin "NodeAffinity" failed with: {INVALID}'),
    "a preference for a label value of 64 characters": (
        "NodeAffinityPriority", pod("p", **affinity(preferred=[term(requirement("In", "x" * 64))])), [],
        f'running Score plugins: plugin "NodeAffinity" failed with: invalid label value: "{"x" * 64}": at key: "gen"'),
    "a preference for a text that would forge a line, and speak to the terminal": (
        "NodeAffinityPriority", pod("p", **affinity(preferred=[term(requirement("In", "x\nb -> n\x1b"))])), [],
        'running Score plugins: plugin "NodeAffinity" failed with: ' + INVALID.replace("-1", "x\\nb -> n\\x1b")),
    "a preference for one that is too long and no label value either": (
        "NodeAffinityPriority", pod("p", **affinity(preferred=[term(requirement("In", "-" * 64))])), [],
        'running Score plugins: plugin "NodeAffinity" failed with: '
        + INVALID.replace('"-1"', f'"{"-" * 64}"')),
    "a preference for numbers below none, two, or a word": (
        "NodeAffinityPriority",
        pod("p", **affinity(preferred=[term(requirement("Lt", *values)) for values in ((), ("1", "2"), ("x",))])), [],
        f'running Score plugins: plugin "NodeAffinity" failed with: {NO_NUMBER}'),
    "a preference by an operator that does not exist": (
        "NodeAffinityPriority", pod("p", **affinity(preferred=[term(requirement("Near", "x"))])), [],
        'running Score plugins: plugin "NodeAffinity" failed with: "Near" is not a valid node selector operator'),
    "inter-pod affinity that is invalid": (
        "MatchInterPodAffinity", pod("p", **near(term(requirement("In")))), [],
        f"0/3 nodes are available: 3 parsing pod: requiredAffinityTerms: {EMPTY}."),
    "inter-pod affinity that is invalid, only scored": (
        "InterPodAffinityPriority", pod("p", **near(term(requirement("In")))), [],
        f'running PreScore plugin "InterPodAffinity": parsing pod: requiredAffinityTerms: {EMPTY}'),
    "inter-pod affinity that is invalid in two lists, of which kube-scheduler reports the last": (
        "MatchInterPodAffinity", pod("p", affinity={
            "podAntiAffinity": {f"required{scheduler.WHEN}": [
                {"topologyKey": ZONE, "labelSelector": term(requirement("In"))}]},
            "podAffinity": {f"preferred{scheduler.WHEN}": [{"weight": 1, "podAffinityTerm": {
                "topologyKey": ZONE, "labelSelector": term(requirement("In"))}}]}}), [],
        f"0/3 nodes are available: 3 parsing pod: preferredAffinityTerms: {EMPTY}."),
    "inter-pod affinity of a pod there that no API server takes": (
        "MatchInterPodAffinity", pod("p"), [pod("odd", nodeName="a", **near({"matchLabels": {"app": None}}))], ALL),
    "... whose terms are no list": (
        "MatchInterPodAffinity", pod("p"), [pod("odd", nodeName="a", affinity={
            "podAntiAffinity": {f"required{scheduler.WHEN}": {"topologyKey": ZONE}}})], ALL),
    "... whose weight is a text": (
        "MatchInterPodAffinity", pod("p"), [pod("odd", nodeName="a", affinity={
            "podAffinity": {f"preferred{scheduler.WHEN}": [{"weight": "5"}]}})], ALL),
    "the first pod of a group that wants to be together": (
        "MatchInterPodAffinity", pod("p", labels=WEB, **near({"matchLabels": WEB})), [], ALL),
    "the second pod of such a group": (
        "MatchInterPodAffinity", pod("p", labels=WEB, **near({"matchLabels": WEB})),
        [pod("first", labels=WEB, nodeName="a")], ["a", "b"]),
    "a pod whose group is not its own": (
        "MatchInterPodAffinity", pod("p", **near({"matchLabels": WEB})), [],
        "0/3 nodes are available: 3 node(s) didn't match pod affinity rules, 3 node(s) didn't match pod "
        "affinity/anti-affinity."),
    "a ReplicaSet whose selector is invalid": (
        "SelectorSpreadPriority", pod("p", labels=WEB),
        [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "r", "namespace": "default"}, "spec": {
            "selector": term(requirement("In", "-1"))}}], dict.fromkeys(ALL, 100)),
    "a service that selects the pod": (
        {"name": "Zonal", "argument": {"serviceAffinity": {"labels": [ZONE]}}}, pod("p", labels=WEB),
        [service(WEB), pod("first", labels=WEB, nodeName="c")], ["c"]),
    "a service without a selector": (
        {"name": "Zonal", "argument": {"serviceAffinity": {"labels": [ZONE]}}}, pod("p", labels=WEB),
        [service(None), pod("first", labels=WEB, nodeName="c")], ALL),
    "a service that selects all pods": (
        {"name": "Spread", "weight": 1, "argument": {"serviceAntiAffinity": {"label": ZONE}}}, pod("p", labels=WEB),
        [service({}), pod("first", labels=WEB, nodeName="c")], dict.fromkeys(ALL, 100)),
    "labels of which the Policy does not say whether they are wanted": (
        {"name": "Absent", "argument": {"labelsPresence": {"labels": ["gen"]}}}, pod("p"), [], ALL),
    "no labels that are to be there, or not": ({"name": "Any", "argument": {"labelsPresence": {}}}, pod("p"), [], ALL),
    "no labels that bind a service": (
        {"name": "Any", "argument": {"serviceAffinity": {}}}, pod("p", labels=WEB),
        [service(WEB), pod("first", labels=WEB, nodeName="c")], ALL),
    "a label of which the Policy does not say whether it is preferred": (
        {"name": "Absent", "weight": 2, "argument": {"labelPreference": {"label": "gen"}}}, pod("p"), [],
        dict.fromkeys(ALL, 200)),
    "a node that has less than is used there": (
        {"name": "Fill", "weight": 1, "argument": {"requestedToCapacityRatioArguments": {
            "shape": [{}, {"utilization": 90, "score": 10}],
            "resources": [{"name": "cpu", "weight": 1}, {"name": "example.com/gpu", "weight": 1}]}}},
        pod("p", {"cpu": "3"}), [machine("a", cpu="2"), machine("b", **{"example.com/gpu": "2"})],
        {"a": 100, "b": 83, "c": 92}),
    "a pod without containers": (
        "LeastRequestedPriority", {**pod("p"), "spec": {"schedulerName": "my-scheduler"}}, [],
        dict.fromkeys(ALL, 100)),
    "a volume that is set aside for the claim": (
        "CheckVolumeBinding", mounting("data"), [LOCAL, claim(), volume("v", **SET_ASIDE)], ALL),
    "one that is, but of another class": (
        "CheckVolumeBinding", mounting("data"), [LOCAL, claim(), volume("v", "other", **SET_ASIDE)], NO_VOLUMES),
    "one that is set aside for another claim": (
        "CheckVolumeBinding", mounting("data"), [LOCAL, claim(), volume("v", claimRef={
            "namespace": "default", "name": "another"})], NO_VOLUMES),
    "one that is set aside for another namespace's": (
        "CheckVolumeBinding", mounting("data"), [LOCAL, claim(), volume("v", claimRef={
            "namespace": "other", "name": "data"})], NO_VOLUMES),
    "a volume that says that it is for a file system, which a claim that does not say wants": (
        "CheckVolumeBinding", mounting("data"), [LOCAL, claim(), volume("v", volumeMode="Filesystem")], ALL),
    "a volume that is going": (
        "CheckVolumeBinding", mounting("data"),
        [LOCAL, claim(), volume("v", metadata={"deletionTimestamp": "2024-01-01T00:00:00Z"})], NO_VOLUMES),
    "a volume that another claim has left behind": (
        "CheckVolumeBinding", mounting("data"), [LOCAL, claim(), volume("v", phase="Released")], NO_VOLUMES),
    "two claims, and one volume": (
        "CheckVolumeBinding", mounting("data", "more"), [LOCAL, claim(), claim("more"), volume("v")], NO_VOLUMES),
    "two claims, and two volumes": (
        "CheckVolumeBinding", mounting("data", "more"),
        [LOCAL, claim(), claim("more"), volume("v"), volume("w")], ALL),
    "a class that an annotation of old leaves empty": (
        "CheckVolumeBinding", mounting("data"), [LOCAL, volume("v"), claim(metadata={"annotations": {
            "volume.beta.kubernetes.io/storage-class": ""}})],
        "0/3 nodes are available: 3 pod has unbound immediate PersistentVolumeClaims."),
    "... or makes a list": (
        "CheckVolumeBinding", mounting("data"), [LOCAL, volume("v"), claim(metadata={"annotations": {
            "volume.beta.kubernetes.io/storage-class": ["local"]}})],
        'metadata.annotations[volume.beta.kubernetes.io/storage-class]: expected a string, got ["local"]'),
    "two claims that remember different nodes": (
        "CheckVolumeBinding", mounting("data", "more"), [
            storage_class("made", "example.com/made"), claim(of="made", metadata=remembering("a")),
            claim("more", of="made", metadata=remembering("b"))], NO_VOLUMES),
    "a provisioner for one zone": (
        "CheckVolumeBinding", mounting("data"),
        [claim(of="made"), storage_class("made", "example.com/made", allowedTopologies=[
            {"matchLabelExpressions": [{"key": ZONE, "values": ["west"]}]}])], ["c"]),
    "a provisioner for an empty term": (
        "CheckVolumeBinding", mounting("data"),
        [claim(of="made"), storage_class("made", "example.com/made", allowedTopologies=[{}])], NO_VOLUMES),
    "a claim that names neither a class nor a volume": (
        "NoVolumeZoneConflict", mounting("data"), [claim(of=None)],
        'running "VolumeZone" filter plugin for pod "p": PersistentVolumeClaim had no pv name and storageClass name'),
    "as many disks as a Nitro node can attach": ("MaxEBSVolumeCount", *on_nitro(25), ALL),
    "one disk more than that": ("MaxEBSVolumeCount", *on_nitro(26), ["b", "c"]),
    "and by its newer label": ("MaxEBSVolumeCount", *on_nitro(26, "node.kubernetes.io/instance-type"), ["b", "c"]),
    "a claim that may be for an EBS disk, beside the only one": (
        "MaxEBSVolumeCount", mounting("data", disks=["disk"]),
        [machine("a", **{"attachable-volumes-aws-ebs": "1"}), claim(of="ebs"),
         storage_class("ebs", "kubernetes.io/aws-ebs")], ["b", "c"]),
    "a claim that turned out to be for something else": (
        "MaxEBSVolumeCount", mounting("data", disks=["disk"]),
        [machine("a", **{"attachable-volumes-aws-ebs": "1"}), claim(of="ebs", volumeName="v"),
         volume("v", "ebs", "Bound", nfs={"server": "s", "path": "/"}),
         storage_class("ebs", "kubernetes.io/aws-ebs")], ALL),
    "a claim for a CSI driver that can attach no more": (
        "MaxCSIVolumeCountPred", mounting("data"),
        [csi_node(driver=0), claim(of="made"), storage_class("made", "driver")], ["b", "c"]),
    "a claim for a provisioner that once was built in, of which CSI knows otherwise": (
        "MaxCSIVolumeCountPred", mounting("data"),
        [csi_node(**{"kubernetes.io/aws-ebs": 0}), claim(of="ebs"), storage_class("ebs", "kubernetes.io/aws-ebs")],
        ALL),
    "a claim for a driver whose name makes a resource of 63 characters": (
        "MaxCSIVolumeCountPred", mounting("data"),
        [machine("a", **{f"attachable-volumes-csi-{LONG}": "0"}),
         machine("b", **{"attachable-volumes-csi-a-driver-whose-name-has11a19e42e28acc2e": "0"}),
         claim(of="made"), storage_class("made", LONG)], ["a", "c"]),
    "a claim for a driver whose name makes one of 62": (
        "MaxCSIVolumeCountPred", mounting("data"),
        [machine("a", **{f"attachable-volumes-csi-{LONG[1:]}": "0"}), claim(of="made"),
         storage_class("made", LONG[1:])], ["b", "c"]),
}


@table("entry, incoming, objects, answer", CASES)
def test_what_few_have_tried(entry, incoming, objects, answer):
    entry = {"name": entry, **({} if entry in scheduler.PREDICATES else {"weight": 1})} if isinstance(
        entry, str) else entry
    kind = "priorities" if "weight" in entry else "predicates"
    policies = {"my-scheduler": scheduler.read_policy({
        "kind": "Policy", "apiVersion": "v1", "predicates": [], "priorities": [], kind: [entry]})}
    decision = extras.decide(policies, incoming, *NODES, *objects)  # of two nodes of a name, the last counts
    if isinstance(answer, dict):
        assert decision.scores == {entry["name"]: answer}
    assert (decision.message or list(decision.total)) == (list(answer) if isinstance(answer, dict) else answer)
