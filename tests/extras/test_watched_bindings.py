"""Watch events that arrive while pods are being bound, at the worst moment."""

import pytest

from helpers.control_plane import wait_for
from helpers.extras import node, pod, table
from helpers.fake_api import POLICY
from scheduler_extras.deciding.rule import FullRule
from scheduler_extras.policy.policy import FullPolicy


ONE = {"cpu": "1"}


@table("name, message", {
    "a misspelled name": ("my-schedular", ["default/p names my-schedular: did you mean my-scheduler?"]),
    "another scheduler's name": ("a-scheduler", []),
    "the default scheduler's name": ("default-scheduler", [])})
@pytest.mark.parametrize("is_there_before", [True, False])
def test_a_misspelled_scheduler_name_is_reported_once(name, message, is_there_before, watched, caplog):
    mistaken = pod("p", schedulerName=name), pod("q", schedulerName=name)
    cluster = watched(node("n"), *(mistaken if is_there_before else ()))
    if not is_there_before:
        cluster.make_pass()
        cluster.create(*mistaken)
    assert cluster.make_pass() == cluster.make_pass() == []
    assert caplog.messages == message


def test_a_bound_pod_keeps_its_room_and_is_not_retried_until_the_watch_shows_it(watched):
    cluster = watched(node("n", cpu="2"))
    cluster.create(pod("a", ONE))
    assert cluster.make_pass() == [("a", "n")] and cluster.on("n") == ["a"] and cluster.under_way() == {"a"}
    assert cluster.make_pass() == [] and cluster.bound() == ["a"]
    cluster.send("MODIFIED", cluster.stamp(pod("a", ONE)))  # from before the Binding
    assert cluster.make_pass() == [] and cluster.on("n") == ["a"]
    cluster.send("MODIFIED", cluster.stamp(pod("a", ONE, nodeName="n")))
    assert cluster.on("n") == ["a"]
    assert cluster.make_pass() == [] and cluster.under_way() == set()
    cluster.send("DELETED", cluster.stamp(pod("a", ONE, nodeName="n")))
    assert cluster.on("n") == []


def test_a_bound_pod_that_pre_enqueue_refuses_before_the_watch_shows_it_is_not_bound_twice(watched):
    why = []
    rule = FullRule("Gates", lambda pod, node: (), hooks={"pre_enqueue": lambda pod: why[0] if why else None})
    cluster = watched(node("n", cpu="2"), policy=FullPolicy([*POLICY.predicates, rule], []))
    cluster.create(pod("a", ONE))
    assert cluster.make_pass() == [("a", "n")]
    why.append("not now")
    assert cluster.make_pass() == []
    why.clear()
    assert cluster.make_pass() == [] and cluster.bound() == ["a"] and cluster.on("n") == ["a"]


def test_a_pod_that_becomes_invalid_while_it_is_being_bound_keeps_its_room(watched):
    cluster = watched(node("n", cpu="1"))
    cluster.create(pod("a", ONE))
    assert cluster.make_pass() == [("a", "n")]
    cluster.send("MODIFIED", *(cluster.stamp(pod("a", {"cpu": amount})) for amount in ("much", "more")))
    cluster.create(pod("b", ONE))
    assert cluster.make_pass() == [("b", None)]
    cluster.send("DELETED", cluster.stamp(pod("a", {"cpu": "more"})))
    wait_for("its room is freed", lambda: cluster.make_pass() == [("b", "n")])


def test_the_watch_may_show_a_bound_pod_before_the_binding_is_answered(watched):
    cluster = watched(node("n", cpu="2"))
    plain = cluster.server.request

    def request(method, path, body=None, params=None, check=None):
        answer = plain(method, path, body, params)
        if path.endswith("/binding"):
            cluster.send("MODIFIED", cluster.stamp(pod("a", ONE, nodeName="n")))
            wait_for("the event is in the cache", lambda: cluster.cache.pods["default/a"].node_name or cluster.cache.apply_updates())
        return answer

    cluster.server.request = request
    cluster.create(pod("a", ONE))
    cluster.make_pass()
    assert cluster.on("n") == ["a"]
    assert cluster.make_pass() == [] and cluster.bound() == ["a"] and cluster.under_way() == set()


def test_a_pod_may_be_deleted_before_the_watch_shows_its_binding(watched):
    cluster = watched(node("n", cpu="1"))
    cluster.create(pod("a", ONE))
    cluster.make_pass()
    del cluster.server.objects["pods", "default", "a"]
    cluster.send("DELETED", cluster.stamp(pod("a", ONE)))
    assert cluster.on("n") == []
    cluster.create(pod("b", ONE))
    assert cluster.make_pass() == [("b", "n")] and cluster.under_way() == {"b"}


def test_a_list_from_before_a_binding_does_not_free_the_pods_room(watched):
    cluster = watched(node("n", cpu="2"))
    cluster.create(pod("a", ONE))
    old = cluster.stamp(pod("a", ONE))
    cluster.make_pass()
    cluster.send("LISTED", old)
    assert cluster.on("n") == ["a"] and cluster.make_pass() == [], "the pod is bound all the same"
    cluster.send("LISTED")
    assert cluster.on("n") == [] and not cluster.cache.pods, "the pod is missing in this list"


def test_a_pod_may_be_created_bound_and_deleted_while_the_watch_is_down(watched):
    cluster = watched(node("n", cpu="1"))
    cluster.create(pod("a", ONE))
    cluster.make_pass()
    cluster.send("LISTED", cluster.put(pod("b", ONE)))  # after 410
    del cluster.server.objects["pods", "default", "a"]
    assert cluster.make_pass() == [("b", "n")] and cluster.on("n") == ["b"]


def test_an_assumed_pod_may_be_bound_elsewhere_by_another_scheduler(watched):
    cluster = watched(node("m", cpu="1"), node("n", cpu="2"))
    cluster.server.failures["binding"] = [409]
    cluster.create(pod("a", {"cpu": "2"}))
    plain = cluster.server.request

    def request(method, path, body=None, params=None, check=None):
        if path.endswith("/binding"):
            cluster.send("MODIFIED", cluster.put(pod("a", {"cpu": "2"}, nodeName="m")))
        return plain(method, path, body, params)

    cluster.server.request = request
    assert cluster.make_pass() == [("a", "n")]
    assert (cluster.on("m"), cluster.on("n")) == (["a"], [])
    assert cluster.make_pass() == [] and cluster.cache.has_changed is False


def test_a_pod_whose_labels_change_while_it_is_being_bound_counts_once(watched):
    cluster = watched(node("n", cpu="2"))
    cluster.create(pod("a", ONE))
    cluster.make_pass(lambda decision: cluster.send("MODIFIED", cluster.stamp(pod("a", ONE, labels={"x": "y"}))))
    assert cluster.on("n") == ["a"]
    assert [each.labels for each in cluster.cache.nodes["n"].pods.values()] == [{"x": "y"}]
    cluster.send("MODIFIED", cluster.put(pod("a", ONE, labels={"x": "y"}, nodeName="n")))
    assert cluster.on("n") == ["a"]
    assert cluster.make_pass() == [] and cluster.under_way() == set()


def test_a_pod_held_by_permit_that_is_bound_elsewhere_counts_there_even_if_its_labels_changed(watched):
    rule = FullRule("Holds", lambda pod, node: (), hooks={"permit": lambda *_: 60})
    cluster = watched(node("m"), node("n"), policy=FullPolicy([rule], []))
    cluster.create(pod("a", ONE))
    [(_, place)] = cluster.make_pass()
    other = {"m": "n", "n": "m"}[place]
    cluster.send("MODIFIED", cluster.stamp(pod("a", ONE, labels={"x": "y"})),
                 cluster.put(pod("a", ONE, labels={"x": "y"}, nodeName=other)))
    cluster.create(pod("b"))
    cluster.make_pass()
    assert cluster.on(other).count("a") == 1 and "a" not in cluster.on(place)
