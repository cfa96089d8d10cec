"""What most people write first: a transformers pipeline behind FastAPI, every setting left alone.

`MODEL=checkpoint uvicorn benchmarks.peers.pipeline_fastapi:app`: the endpoint is a plain function, which FastAPI runs
in its thread pool.
"""

from __future__ import annotations

import os
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel
from transformers import pipeline


class Question(BaseModel):
    text: str


classifier = pipeline("text-classification", model=os.environ["MODEL"], top_k=None)
app = FastAPI()


def classify(question: Question) -> Any:
    return classifier(question.text)


app.post("/classify")(classify)
