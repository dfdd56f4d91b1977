"""Suggestions for an unknown word: its replacement, or the most similar known word.

Everything that parses user input uses them: options, files, manifests.
"""

import difflib
from collections.abc import Collection


# Former name of a predicate, a priority, a field or a flag -> what to do instead. configuration/ adds names
# that only a configuration has, and cuts off what is about a Policy.
REPLACEMENTS = {
    **dict.fromkeys(
        ["NodeLabel", "labelsPresence"],
        "use node affinity (in a Policy: a predicate of any name, with the argument labelsPresence)"),
    **dict.fromkeys(
        ["NodeLabelPriority", "labelPreference"],
        "use node affinity (in a Policy: a priority of any name, with the argument labelPreference)"),
    **dict.fromkeys(
        ["ServiceAffinity", "serviceAffinity"],
        "use pod affinity (in a Policy: a predicate of any name, with the argument serviceAffinity)"),
    **dict.fromkeys(
        ["ServiceAffinityPriority", "ServiceAntiAffinityPriority", "serviceAntiAffinity"],
        "use spread constraints (in a Policy: a priority of any name, with the argument "
        "serviceAntiAffinity)"),
    **dict.fromkeys(
        ["RequestedToCapacityRatio", "RequestedToCapacityRatioPriority", "requestedToCapacityRatioArguments"],
        "use NodeResourcesFit with scoringStrategy.type RequestedToCapacityRatio (in a Policy: a priority of "
        "any name, with the argument requestedToCapacityRatioArguments)"),
    "ResourceLimitsPriority": "leave it out",
    "NoVolumeNodeConflict": "use VolumeBinding (in a Policy: CheckVolumeBinding)",
    "PodFitsHost": "use NodeName (in a Policy: HostName)",  # the names in the Go code
    "PodMatchNodeSelector": "use NodeAffinity (in a Policy: MatchNodeSelector)",
    "version": "use apiVersion", "predicateConfigs": "use predicates", "priorityConfigs": "use priorities",
    "--kubeconfig": "use kubectl --kubeconfig FILE proxy", "--master": "use --server", "--v": "use --verbose",
    **dict.fromkeys(["--policy-configmap", "--policy-configmap-namespace"],
                    "use --policy with the file from the ConfigMap"),
    "--hard-pod-affinity-symmetric-weight": "use hardPodAffinitySymmetricWeight in the Policy"}


def did_you_mean(word: object, known: Collection[str],
                 otherwise: str = "; is a file missing in --plugins?") -> str:
    """Return a suggestion for an unknown word: its replacement, a similar word, or else `otherwise`."""
    word = str(word)
    if word in REPLACEMENTS and word not in known:
        return f"; {REPLACEMENTS[word]}"
    near = difflib.get_close_matches(word, known, 1, cutoff=0.75)
    if not near:
        return otherwise
    is_a_slip = difflib.get_close_matches(word, near, 1, cutoff=0.9)  # otherwise, another word may be meant
    return f'; did you mean "{near[0]}"?' + ("" if is_a_slip else otherwise)


def nearly(word: str, known: Collection[str]) -> str:
    """Return the known word that is similar to an unknown one, ignoring case; or ""."""
    names = {name.lower(): name for name in known}
    near = difflib.get_close_matches(word.lower(), names, 1, cutoff=0.82)
    return names[near[0]] if near and word not in known else ""
