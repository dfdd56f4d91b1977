"""Hints for an unknown word: its name today, or the nearest known word.

Whatever reads what people write uses it: options, files, manifests.
"""

import difflib


# Name of a predicate, a priority, a field or a flag -> how that is said today. configuration/ adds those that
# only a configuration has, and leaves out of these what is said in a Policy.
NAMES_OF_OLD = {
    **dict.fromkeys(["NodeLabel", "labelsPresence"],
                    "node affinity (in a Policy: a predicate of any name, with the argument labelsPresence)"),
    **dict.fromkeys(["NodeLabelPriority", "labelPreference"],
                    "node affinity (in a Policy: a priority of any name, with the argument labelPreference)"),
    **dict.fromkeys(["ServiceAffinity", "serviceAffinity"],
                    "pod affinity (in a Policy: a predicate of any name, with the argument serviceAffinity)"),
    **dict.fromkeys(
        ["ServiceAffinityPriority", "ServiceAntiAffinityPriority", "serviceAntiAffinity"],
        "spread constraints (in a Policy: a priority of any name, with the argument serviceAntiAffinity)"),
    **dict.fromkeys(
        ["RequestedToCapacityRatio", "RequestedToCapacityRatioPriority", "requestedToCapacityRatioArguments"],
        "NodeResourcesFit with scoringStrategy.type RequestedToCapacityRatio (in a Policy: a priority of any "
        "name, with the argument requestedToCapacityRatioArguments)"),
    "ResourceLimitsPriority": "nothing, leave it out",
    "NoVolumeNodeConflict": "VolumeBinding (in a Policy: CheckVolumeBinding)",
    "PodFitsHost": "NodeName (in a Policy: HostName)",  # what Go calls a rule
    "PodMatchNodeSelector": "NodeAffinity (in a Policy: MatchNodeSelector)",
    "version": "apiVersion", "predicateConfigs": "predicates", "priorityConfigs": "priorities",
    "--kubeconfig": "kubectl --kubeconfig FILE proxy", "--master": "--server", "--v": "--verbose",
    **dict.fromkeys(["--policy-configmap", "--policy-configmap-namespace"],
                    "--policy with the file that is in the ConfigMap"),
    "--hard-pod-affinity-symmetric-weight": "hardPodAffinitySymmetricWeight in the Policy"}


def did_you_mean(word, known, otherwise="; is a file missing in --plugins?"):
    """Return a hint: today's way to say it, or the known word nearest to it, or another hint."""
    word = str(word)
    if word in NAMES_OF_OLD and word not in known:
        return f"; today: {NAMES_OF_OLD[word]}"
    near = difflib.get_close_matches(word, known, 1, cutoff=0.75)
    if not near:
        return otherwise
    is_a_slip = difflib.get_close_matches(word, near, 1, cutoff=0.9)  # else it may be somebody else's
    return f'; did you mean "{near[0]}"?' + ("" if is_a_slip else otherwise)


def nearly(word, known):
    """Return which of the known words this one nearly is, whatever its case, but not quite; else ""."""
    names = {name.lower(): name for name in known}
    near = difflib.get_close_matches(word.lower(), names, 1, cutoff=0.82)
    return names[near[0]] if near and word not in known else ""
