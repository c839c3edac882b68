import pytest

from agent.errors import InputError
from serving.labels import LabelSelector

LABELS = {"team": "web", "tier": "front", "app.kubernetes.io/name": "shop", "empty": ""}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "team=web",
        "team==web",
        "team = web, tier=front",
        "team!=db",
        "absent!=db",
        "tier in (front, edge)",
        "tier notin (back,edge),team=web",
        "absent notin (a)",
        "team",
        "!absent",
        "app.kubernetes.io/name=shop",
        "empty=",
    ],
)
def test_selected(text):
    assert LabelSelector.parse(text).selects(LABELS)


@pytest.mark.parametrize(
    "text",
    [
        "team=db",
        "team!=web",
        "tier in (back, edge)",
        "tier notin (front)",
        "absent",
        "!team",
        "team=web,tier=back",
        "team=",
    ],
)
def test_not_selected(text):
    assert not LabelSelector.parse(text).selects(LABELS)


@pytest.mark.parametrize("text", ["team=web,", "=web", "tier in front", "a b", "a=b=c", "tier in (a", "team=(web)"])
def test_what_is_no_selector_is_one_clear_error(text):
    with pytest.raises(InputError, match=r"label selector: .* is no term; write key=value"):
        LabelSelector.parse(text)
