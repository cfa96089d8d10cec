"""Recipes of other servers: each says enough to be installed, started and asked."""

from __future__ import annotations

import json
import re

import pytest

from benchmarks.peers import recipe
from benchmarks.peers.recipe import at, body, filled

PLACES = {"model", "graph", "bundle", "python", "bin", "run", "root", "port", "cpus"}


@pytest.fixture(params=recipe.names())
def peer(request: pytest.FixtureRequest) -> recipe.Recipe:
    return recipe.load(request.param)


def test_ours_stock_bentoml_and_the_plain_pipeline_are_always_there() -> None:
    assert {"ours", "bentoml", "pipeline"} <= set(recipe.names())


def test_a_recipe_names_only_places_that_are_filled_in(peer: recipe.Recipe) -> None:
    texts = [*peer.command, peer.cwd, *peer.env.values(), *peer.files.values()]
    assert {place for text in texts for place in re.findall(r"\{(\w+)\}", text)} <= PLACES
    assert any("{port}" in text for text in texts)


def test_a_recipe_asks_with_the_text_and_nothing_else_changes(peer: recipe.Recipe) -> None:
    sent = body(peer.body, 'a "text"\n가')
    assert json.loads(sent) == json.loads(json.dumps(peer.body).replace('"{text}"', json.dumps('a "text"\n가')))
    assert json.loads(sent) != peer.body


def test_every_peer_but_bentoml_has_pinned_packages_of_its_own(peer: recipe.Recipe) -> None:
    if peer.environment is None:
        assert "bentoml" in peer.command
    else:
        assert re.search(r"[\w\]]==\d", " ".join(peer.environment.install))


def test_recipes_with_one_environment_mean_the_same() -> None:
    found: dict[str, recipe.Environment] = {}
    for name in recipe.names():
        if environment := recipe.load(name).environment:
            assert found.setdefault(environment.name, environment) == environment


def test_an_included_recipe_gives_what_is_not_replaced() -> None:
    stock, tuned = recipe.load("bentoml"), recipe.load("bentoml-tuned")
    assert tuned.command == stock.command
    assert tuned.title != stock.title
    assert tuned.env == stock.env | {"PEER_WORKERS": "{cpus}"}


def test_places_are_filled_in_and_other_braces_stay() -> None:
    assert filled('{"port": {port}, "at": "{run}/x"}', {"port": 80, "run": "/r"}) == '{"port": 80, "at": "/r/x"}'


@pytest.mark.parametrize(
    ("answer", "path"),
    [
        ({"label": "a"}, ["label"]),
        ([[{"label": "a"}]], [0, 0, "label"]),
        ({"outputs": [{"data": ['{"label": "a"}']}]}, ["outputs", 0, "data", 0, "label"]),
    ],
)
def test_the_label_is_read_where_the_recipe_says(answer: object, path: list[str | int]) -> None:
    assert at(answer, path) == "a"
