"""Recall from a catalogue: exactly the score of its definition, at a fraction of the time."""

from __future__ import annotations

import math
import random
import threading
from collections import Counter
from itertools import accumulate
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.tasks.recall import Recall, words

NAMES = [
    "高血压",
    "2型糖尿病",
    "1型糖尿病",
    "糖尿病",
    "慢性胃炎",
    "急性胃炎",
    "十二指肠溃疡",
    "肺恶性肿瘤",
    "上叶支气管或肺的恶性肿瘤",
    "非ST段抬高型心肌梗死",
]


def plain(text: str, names: list[str], of: list[str] | None = None) -> list[float]:
    """The definition, term by term, of all `names` or of some: gensim's tf-idf cosine and the overlap of characters."""
    bags = [Counter(words(name)) for name in names]
    spread = Counter(word for bag in bags for word in bag)

    def vector(bag: Counter[str]) -> dict[str, float]:
        weights = {word: n * math.log2(len(names) / spread[word]) for word, n in bag.items() if word in spread}
        length = math.sqrt(sum(weight**2 for weight in weights.values()))
        return {word: weight / length for word, weight in weights.items()} if length else {}

    query, characters = vector(Counter(words(text))), set(text)
    scores = []
    for name in of or names:
        cosine = sum(query.get(word, 0.0) * weight for word, weight in vector(Counter(words(name))).items())
        scores.append(cosine + len(characters & set(name)) / min(len(characters), len(set(name))))
    return scores


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        ("慢性阻塞性肺疾病", "慢性 阻塞性 肺 疾病"),
        ("年龄在18-65岁", "年龄 在 18 - 65 岁"),
        ("糖化血红蛋白7.0mmol/L", "糖化 血红蛋白 7.0 mmol / L"),
        ("非ST段抬高", "非 ST 段 抬高"),
        ("B超,50%", "B超 , 50%"),
        ("NT-proBNP", "NT - proBNP"),
        ("c++", "c++"),
        ("", ""),
    ],
)
def test_words_are_those_of_jieba(text: str, cut: str) -> None:
    """As jieba 0.42.1 answers; a sign between Latin letters or digits is a word of its own."""
    assert words(text) == cut.split()


def test_worked_scores() -> None:
    """Two terms, one word of which is in both and therefore weighs nothing."""
    recall = Recall(["慢性 胃炎", "急性 胃炎"])
    assert recall.scores("慢性").tolist() == pytest.approx([1 / math.sqrt(1) + 2 / 2, 0 + 1 / 2])
    assert recall.scores("胃炎").tolist() == pytest.approx([1.0, 1.0])
    assert recall.scores("慢急").tolist() == pytest.approx([1 / 2, 1 / 2])
    assert recall.scores("龙").tolist() == [0.0, 0.0]
    # Counts weigh: 慢性 twice and a word of rarity 1 beside it.
    assert Recall(["慢性慢性", "急性", "慢性炎症"]).scores("慢性").tolist() == pytest.approx(
        plain("慢性", ["慢性慢性", "急性", "慢性炎症"])
    )


@given(st.text("高血压型糖尿病12慢急性胃炎肺恶肿瘤的ST及 ;x", min_size=1, max_size=30))
def test_the_index_gives_the_score_of_the_definition(text: str) -> None:
    assert Recall(NAMES).scores(text).tolist() == pytest.approx(plain(text, NAMES), abs=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_a_term_is_likest_to_itself(name: str) -> None:
    best, scores = Recall(NAMES).top(name, 1)
    assert NAMES[best[0]] == name
    assert scores[0] == pytest.approx(2.0)


def test_the_best_come_first_and_of_equals_the_earlier_one() -> None:
    names = ["甲乙", "丙丁", "甲丙", "戊己", "乙丁"]
    recall = Recall(names)
    order, scores = recall.top("甲", 4)
    assert sorted(scores.tolist(), reverse=True) == scores.tolist()
    assert order.tolist() == [0, 2, 1, 3], "three terms are equally unlike"
    assert recall.top("甲", 9)[0].tolist() == [0, 2, 1, 3, 4]
    assert recall.top("龙", 2)[0].tolist() == [0, 1]


@pytest.fixture(scope="module")
def catalogue() -> list[str]:
    """Forty thousand made-up terms of characters as unevenly frequent as those of a language."""
    draw = random.Random(7)
    characters = [chr(0x4E00 + i) for i in range(3000)]
    often = list(accumulate(1 / (i + 3) for i in range(3000)))
    names: dict[str, None] = {}
    while len(names) < 40_000:
        names["".join(draw.choices(characters, cum_weights=often, k=draw.randint(3, 18)))] = None
    return list(names)


@pytest.fixture(scope="module")
def recall(catalogue: list[str]) -> Recall:
    return Recall(catalogue)


def test_forty_thousand_terms_take_less_than_fifty_milliseconds_of_cpu(recall: Recall, catalogue: list[str]) -> None:
    draw = random.Random(8)
    texts = ["".join(draw.sample(catalogue, k)) for k in (1, 2, 3) for _ in range(7)]
    spent = []
    for text in texts:
        start = process_time()
        best, _ = recall.top(text, 200)
        spent.append(process_time() - start)
        assert len(best) == 200
    assert max(spent) < 0.05


def test_two_hundred_of_forty_thousand_are_those_of_a_plain_search(recall: Recall, catalogue: list[str]) -> None:
    text = catalogue[123][:5] + catalogue[4567]
    best, scores = recall.top(text, 200)
    others = random.Random(9).sample(sorted(set(range(len(catalogue))) - set(best.tolist())), 300)
    want = plain(text, catalogue, [catalogue[i] for i in [*best, *others]])
    assert scores.tolist() == pytest.approx(want[:200], abs=1e-9)
    assert recall.scores(text)[others].tolist() == pytest.approx(want[200:], abs=1e-9)
    assert max(want[200:]) <= min(want[:200]) + 1e-9


def test_threads_may_share_it(recall: Recall, catalogue: list[str]) -> None:
    want = [recall.scores(text).tobytes() for text in catalogue[:40]]
    got: list[list[bytes]] = []
    threads = [
        threading.Thread(target=lambda: got.append([recall.scores(text).tobytes() for text in catalogue[:40]]))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == [want] * 4
