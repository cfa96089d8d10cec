"""A mixed load over all demo bundles: short and long requests, every one a little different."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from e2e_http import Comparison, Connection, Reply, Request

NER = {
    "klue-ner": "이순신은 {n}월에 여수에서 현대자동차 직원 {n}명을 만났다. ",
    "bc5cdr": "Case {n}: cisplatin caused acute renal failure after {n} days. ",
    "ncbi-disease": "Family {n} carried BRCA2 mutations with ovarian cancer. ",
    "cehrner": "第{n}例患者因肺癌行肺叶切除术,术后行多西他赛化疗。",
    "cmedqaner": "第{n}个宝宝感冒咳嗽,可以吃阿莫西林吗?",
    "cmedqaner-gp": "{n}岁的老人头晕恶心,需要吃降压药吗?",
}
TEXTS = {
    "klue-ynat": "반도체 수출 {n}% 증가…코스피 상승 마감 ",
    "cmedtc": "年龄在{n}～70岁之间,无肺部疾病。",
    "cmedic": "胃溃疡第{n}天可以吃辣椒吗,",
    "klue-dp": "나는 어제 새 책 {n}권을 샀다. ",
    "pubmedqa": "Does drug {n} reduce falls? We followed {n} residents of nursing homes for a year. ",
}
PAIRS = {
    "klue-nli": ("도서관은 평일 아침 {n}시에 문을 연다. ", "도서관은 {n}시에 연다."),
    "klue-sts": ("호텔이 공항에서 {n}분 거리예요. ", "공항이 호텔에서 {n}분이에요."),
    "cmedqq": ("高血压{n}年的病人可以喝牛奶吗,", "有高血压{n}年能不能喝牛奶"),
}
QUESTIONS = {
    "klue-mrc": ("경부고속도로가 완공된 해는?", "경부고속도로는 19{n}년에 공사를 시작하여 1970년에 완공되었다. "),
    "cmrc2018": ("黄河的长度是多少？", "黄河是中国第二长的河流，全长约5{n}公里，最后注入渤海。"),
    "drcd": ("日月潭位於哪一個縣？", "日月潭位於臺灣南投縣魚池鄉，湖面海拔約7{n}公尺。"),
}
LENGTHS = (1, 1, 1, 2, 1, 1, 1, 1, 3, 1, 1, 1, 1, 6, 1, 1, 1, 1, 1, 12)
"""How often a text repeats its sentence: most requests are short, some need several windows."""


def mixed(count: int) -> list[Request]:
    """`count` different requests, bundle after bundle."""
    return [request for request, _ in zip(_mixed(), range(count), strict=False)]


def _mixed() -> Iterator[Request]:
    n = 10
    while True:
        times = LENGTHS[n % len(LENGTHS)]
        for name, sentence in (NER | TEXTS).items():
            yield f"/{name}", {"text": sentence.format(n=n) * times}
        for name, (first, second) in PAIRS.items():
            yield f"/{name}", {"text": first.format(n=n) * times, "text_pair": second.format(n=n)}
        for name, (question, context) in QUESTIONS.items():
            yield f"/{name}", {"question": question, "context": context.format(n=n) * times, "top_k": 1 + n % 3}
        yield "/klue-re", relation(n, times)
        yield "/klue-wos", dialogue(n, times)
        n += 1


def relation(n: int, times: int) -> dict[str, Any]:
    text = f"현대자동차의 정의선 회장이 인도를 {n}번 방문했다. " * times
    return {"text": text, "subject": {"start": 0, "end": 5}, "object": {"start": 7, "end": 10}}


def dialogue(n: int, times: int) -> dict[str, Any]:
    said = [("user", f"서울에서 {n}명이 먹을 한식당을 찾아요."), ("sys", "가격대는 어떻게 할까요?")] * times
    return {"turns": [{"role": role, "text": text} for role, text in [*said, ("user", "적당한 곳이면 됩니다.")]]}


def alone(url: str, requests: list[Request]) -> list[Reply]:
    """Every request by itself, one after the other."""

    async def run() -> list[Reply]:
        connection = await Connection(url).open()
        replies = [await connection.ask(*request) for request in requests]
        await connection.close()
        return replies

    return asyncio.run(run())


def figures(title: str, **values: Any) -> None:
    print(f"\n{title}: " + ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in values.items()))


def compare(expected: list[Reply], replies: list[Reply]) -> Comparison:
    comparison = Comparison()
    for i, reply in enumerate(replies):
        comparison.add(expected[i % len(expected)].json(), reply.json(), f"request {i}")
    return comparison
