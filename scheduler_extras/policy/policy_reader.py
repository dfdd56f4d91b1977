"""Reads a Policy from a document: what its entries mean, and which mistakes they have.

policy/policy_file.py calls it for each new text. configuration/ sets up rules with it, too.
"""

import collections
import functools
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any

from scheduler_extras.common.blame import describe_error, signature_of
from scheduler_extras.common.errors import InputError
from scheduler_extras.common.return_checks import strings_of
from scheduler_extras.common.version import CONFIGURATION_VERSION
from scheduler_extras.deciding.rule import CATALOGUES, PREDICATES, PRIORITIES, FullRule
from scheduler_extras.policy.extenders import (
    EXTENDER,
    FILTERED,
    extender_problems,
    extenders_of,
    left_to_extenders,
)
from scheduler_extras.policy.own_rules import NOUNS
from scheduler_extras.policy.policy import FullPolicy
from scheduler_extras.reading.fields import JsonObject, pick, text_at
from scheduler_extras.reading.hints import REPLACEMENTS, did_you_mean, nearly
from scheduler_extras.reading.schemas import decode, decode_part, in_short, noted, refuse
from scheduler_extras.rules.resources import WEIGHT


# An entry of a Policy means one rule, several, or none (`meaning_of`). Entries that mean the same rule are
# merged: the rule gets all their arguments as `arguments` (`set_up`), and n entries weigh n times as much
# (`rules_named`).


GENERAL_FIRST = ["CheckNodeUnschedulable", "PodFitsResources"]  # if GeneralPredicates is active
REPLACED_BY_TAINTS = [  # predicates up to 1.18
    "CheckNodeCondition", "CheckNodeMemoryPressure", "CheckNodeDiskPressure", "CheckNodePIDPressure",
    "PodToleratesNodeNoExecuteTaints"]
WITHOUT_RULE = {  # names that are accepted, but have no effect
    "predicates": REPLACED_BY_TAINTS,
    "priorities": ["EqualPriority"]}  # it gives all nodes the same score


def default_entries(where: str) -> list[JsonObject]:
    """Return the default entries of a list that a Policy leaves out."""
    return [{"name": rule.name, "weight": rule.by_default}
            for rule in CATALOGUES[where].values() if rule.by_default]


ACCEPTED = ["kind Policy with apiVersion v1"]  # what a file may be; configuration/ adds its own kind


def what_it_is(document: Any) -> str:
    """Return what a document is instead of a Policy or configuration, and how to get one from it."""
    kind = text_at(document, "kind")
    version = text_at(document, "apiVersion")
    if kind.endswith("List"):
        found = [item for item in pick(document, list, "items") if text_at(item, "kind") == "ConfigMap"]
        return f"a {kind} with {what_it_is(found[0])}" if found else in_short(document)
    if kind == "ConfigMap":
        data = pick(document, dict, "data")
        key = next((key for key in data if "kind" in str(data[key]) or key == "policy.cfg"), None)
        if key is None:
            return "a ConfigMap without either"
        name = f"{text_at(document, 'metadata', 'name')} -n {text_at(document, 'metadata', 'namespace')}"
        escaped = key.replace(".", "\\.")
        return (f'a ConfigMap; --policy needs its data["{key}"]: kubectl get configmap '
                f"{name.removesuffix(' -n ')} -o jsonpath='{{.data.{escaped}}}' > policy.json")
    if kind in ("Pod", "Deployment") or version.startswith("kubeadm.k8s.io/"):
        return f"a {kind}; --policy needs the file that its config or policy-config-file names"
    if document and isinstance(document, dict) and LEADS_ELSEWHERE.isdisjoint(document):
        return f"{in_short(document)}; for Helm values, use the ConfigMap in the output of `helm template`"
    return "nothing" if document is None else in_short(document)


LEADS_ELSEWHERE = {"kind", "apiVersion", "metadata", "profiles", "predicates", "priorities", "extenders"}
POLICY: JsonObject = {
    "kind": str, "apiVersion": str, "extenders": list,
    "predicates": [{"name": str, "argument": dict}],
    "priorities": [{"name": str, "weight": WEIGHT, "argument": dict}],
    "hardPodAffinitySymmetricWeight": range(101), "alwaysCheckAllPredicates": bool}


def read_policy(document: Any, also: Collection[str] = ()) -> FullPolicy:
    """Return the Policy of a document, checked as strictly as in kube-scheduler. Raises InputError.

    also: predicates that are active even if it does not name them. Upstream: createFromConfig in factory.go.
    """
    decoded, notices = decode_policy(document)
    configs = decoded["extenders"]
    problems: list[str] = []
    predicate_entries = decoded.get("predicates", default_entries("predicates"))
    named = {entry.get("name") for entry in predicate_entries}
    has_general = "predicates" not in decoded or "GeneralPredicates" in named
    predicate_entries += [{"name": rule.name} for rule in PREDICATES.values()
                          if (rule.always or rule.name in also) and rule.name not in named]
    priority_entries = decoded.get("priorities", default_entries("priorities"))
    settings_elsewhere: dict[str, JsonObject] = {  # rule -> its settings
        "PodFitsResources": {"excepted": left_to_extenders(configs)},
        "InterPodAffinityPriority": {"hard_weight": decoded.get("hardPodAffinitySymmetricWeight") or 1}}
    predicates = rules_named("predicates", predicate_entries, settings_elsewhere, notices, problems)
    priorities = rules_named("priorities", priority_entries, settings_elsewhere, notices, problems)
    problems += extender_problems(configs)
    refuse(problems)
    if not any("post_filter" in rule.hooks for rule in predicates):
        notices += [f"extenders[{i}].preemptVerb: not used, because no pod is preempted; see --preempt"
                    for i, config in enumerate(configs) if config.get("preemptVerb")]
    order = [*(GENERAL_FIRST if has_general else []), *PREDICATES]
    predicates.sort(key=lambda rule: order.index(rule.name))
    check_all = decoded.get("alwaysCheckAllPredicates", False)
    return FullPolicy(predicates, priorities, extenders_of(configs, FILTERED), check_all, notices)


def decode_policy(document: Any) -> tuple[JsonObject, list[str]]:
    """Return the fields of a Policy, and notices about unknown ones. Raises InputError."""
    is_others = text_at(document, "apiVersion") not in ("", "v1", CONFIGURATION_VERSION)
    is_policy = text_at(document, "kind") == "Policy" and not is_others
    problems: list[str] = []
    skipped: list[str] = []
    decoded = decode_part(document, POLICY, "", problems) if is_policy else {}
    extenders = decode_part(decoded.get("extenders", []), [EXTENDER], "extenders", problems, skipped)
    refuse(problems)
    if not decoded.get("apiVersion"):  # kube-scheduler accepts a file without it, but it may be incomplete
        raise InputError(f"expected {', or '.join(ACCEPTED)}, got {what_it_is(document)}")
    notices = [f"{place}: unknown field, ignored as in kube-scheduler" for place in skipped]
    return decoded | {"extenders": extenders}, notices


def rules_named(
    where: str, entries: list[JsonObject], settings_elsewhere: dict[str, JsonObject], notices: list[str],
    problems: list[str]
) -> list[FullRule]:
    """Return the rules that entries mean, each once, with the arguments of all its entries; add mistakes."""
    uses_by_rule = uses_of(where, entries, notices, problems)
    if {"SelectorSpreadPriority", "EvenPodsSpreadPriority"} <= uses_by_rule.keys():  # one plugin
        uses_by_rule["SelectorSpreadPriority"] += uses_by_rule.pop("EvenPodsSpreadPriority")
    rules: list[FullRule] = []
    for name, uses in uses_by_rule.items():
        first = uses[0]
        last = uses[-1]
        arguments = [argument for use in uses for argument in use.arguments]
        for use in uses:
            if arguments and use.weight != first.weight:
                expected = f"{first.weight} as in {first.entry}"
                problems.append(f"{use.entry}.weight: must be {expected}, because they mean the same rule")
        title = "+".join(dict.fromkeys(use.title for use in uses))
        while any(title == other.title for other in rules):  # to tell their scores apart
            title = f"{title} ({name})"
        # As upstream, the last weight counts, and n entries with arguments weigh n times as much.
        weight = last.weight * max(1, len(arguments))
        settings = {"arguments": arguments} | settings_elsewhere.get(name, {})
        with noted(problems):
            rules.append(set_up(CATALOGUES[where][name], title, last.entry, weight, settings))
    return rules


@dataclass
class Use:
    """An entry that means a rule."""

    entry: str  # its place, such as predicates[0]
    title: str  # the name of the rule in the entry
    weight: int
    arguments: list[JsonObject]  # its argument, if it has one


def uses_of(
    where: str, entries: list[JsonObject], notices: list[str], problems: list[str]
) -> dict[str, list[Use]]:
    """Return {name of a rule: its Uses} of the rules that entries mean; add mistakes."""
    uses = collections.defaultdict(list)
    for i, entry in enumerate(entries):
        place = f"{where}[{i}]"
        with noted(problems):
            names, arguments = meaning_of(where, entry, place, notices)
            if where == "priorities" and "weight" not in entry:
                raise InputError(f"{place}.weight: is missing; expected a number of {WEIGHT[0]} or more")
            for name in names:
                title = entry.get("name", "") if len(names) == 1 else name
                uses[name].append(Use(place, title, entry.get("weight", 1), arguments))
    return uses


def meaning_of(
    where: str, entry: JsonObject, place: str, notices: list[str]
) -> tuple[list[str], list[JsonObject]]:
    """Return the names of the rules that an entry means, and their arguments: none or one.

    The argument of a rule of the user's own has the rule's fields. The argument of one of kube-scheduler's
    rules has a single member, which names the rule. The entry may then have any name that no rule has.
    """
    rules = CATALOGUES[where]
    title = entry.get("name", "")
    given = entry.get("argument", {})
    known = known_names(where)
    is_known = title in known
    names = known.get(title, [])  # of the rules with this name
    if names and has_own_fields(rules[names[0]]):
        return names, [decode(given, rules[names[0]].argument, f"{place}.argument")]
    rule_for = {rule.member: name for name, rule in rules.items() if rule.member}
    if not is_known and not any(member in rule_for or nearly(member, tuple(rule_for)) for member in given):
        raise InputError(f"{place}: {unknown_rule(where, title)}")
    schema = {member: rules[name].argument for member, name in rule_for.items()}
    decoded = decode(given, schema, f"{place}.argument")
    if "argument" in entry and len(decoded) != 1:
        raise InputError(f"{place}: the argument must have exactly one member")
    if not is_known or (decoded and title in REPLACED_BY_TAINTS):  # these are free names in 1.20
        [(member, argument)] = decoded.items()
        return [rule_for[member]], [argument]
    notices += notices_about(where, title, place, decoded)
    return names, []


def notices_about(where: str, title: str, place: str, argument: JsonObject) -> Iterator[str]:
    """Yield a notice about each part of an entry that has no effect."""
    rule = CATALOGUES[where].get(title)
    if argument and known_names(where)[title]:
        yield f'{place}: "{title}" ignores its argument, as in kube-scheduler; use a name of your own'
    if rule and rule.member and not argument:
        effect = "accepts every node; it " if where == "predicates" else ""
        yield f"{place}: {effect}needs another name, and the argument {rule.member}"
    if title in REPLACED_BY_TAINTS:
        yield f"{place}: taints have replaced {title}, and PodToleratesNodeTaints is always active"


def has_own_fields(rule: FullRule) -> bool:
    """Return whether the argument has the rule's fields, not a member that names the rule."""
    return bool(rule.argument) and not rule.member


def known_names(where: str) -> dict[str, list[str]]:
    """Return {name: the rules that it means} of all names that a list of a Policy may have."""
    names: dict[str, list[str]] = {name: [] for name in WITHOUT_RULE[where]}
    for rule in CATALOGUES[where].values():
        for name in (rule.name, *rule.aliases):
            names.setdefault(name, []).append(rule.name)
    return names


def unknown_rule(where: str, title: str) -> str:
    """Return the error for an unknown name. It may be from the other list, a plugin's, or misspelt."""
    [elsewhere] = CATALOGUES.keys() - {where}
    if where == "priorities" and f"{title}Priority" in known_names(where):
        return f'unknown priority "{title}"; did you mean "{title}Priority"?'
    if title in known_names(elsewhere) and title not in REPLACEMENTS:
        return f'"{title}" is a {NOUNS[elsewhere]}; put it under {elsewhere}'
    meant = next((rule.name for rule in CATALOGUES[where].values() if rule.plugin == title), title)
    return f'unknown {NOUNS[where]} "{title}"{did_you_mean(meant, known_names(where))}'


def set_up(rule: FullRule, title: str, entry: str, weight: int, settings: JsonObject) -> FullRule:
    """Return a copy of a rule whose functions have the settings of a file filled in.

    settings: {parameter: value}; `arguments` are those of the entries that mean the rule. Raises InputError;
    TypeError if no function takes a setting.
    """
    arguments = settings.get("arguments", [])
    if has_own_fields(rule):
        arguments = [rule.default | argument for argument in arguments or [{}]]
    check_arguments(rule, arguments, entry)
    if rule.argument is not None:
        settings = settings | {"arguments": arguments}
    filled: dict[str, Any] = {}  # option of the rule -> its function with the settings filled in
    taken = {"arguments"}
    options = "function", "metadata", "reduce", "helped_by_pods"
    functions = {option: getattr(rule, option) for option in options}
    for option, function in (rule.hooks | functions).items():
        signature = function and signature_of(function)
        known = {name: settings[name] for name in settings if signature and name in signature.parameters}
        taken |= known.keys()
        filled[option] = functools.partial(function, **known) if known else function
    if not settings.keys() <= taken:
        raise TypeError(f"{rule.name} has no setting {', '.join(settings.keys() - taken)}")
    hooks = {point: filled.pop(point) for point in rule.hooks}
    return replace(rule, title=title, weight=weight, settings=settings, hooks=hooks, **filled)


def check_arguments(rule: FullRule, arguments: list[JsonObject], entry: str) -> None:
    """Raise InputError if a rule lacks arguments, or its `check` rejects them."""
    if rule.member and rule.name in PRIORITIES and not arguments:
        raise InputError(f"{entry}: needs another name, and the argument {rule.member}")
    if has_own_fields(rule):  # in arguments of other rules, all fields are optional
        for name in rule.argument or {}:
            if any(name not in argument for argument in arguments):
                raise InputError(f'{entry}: the argument lacks "{name}"; "{rule.name}" needs it')
    if rule.check:
        try:
            problems = strings_of(rule, rule.check(arguments), rule.check)
        except (Exception, SystemExit) as error:
            problems = [describe_error(error)]
        refuse([f"{entry}: {problem}" for problem in problems])
