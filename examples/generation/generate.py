#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""As main.cpp, in Python: generate.py MODEL.onnx TOKENS ID [ID ...] prints the tokens that follow, one a line."""

import sys
import time

import numpy as np

import openhpu

MOST_PROMPT, MOST_PAST = 512, 1024


def generate(session, prompt, count):
    """Yields `count` tokens after those of the prompt, each the likeliest."""
    cache = session.state(past=0)
    [tokens] = [info.name for info in session.inputs if info.name not in cache.shapes]
    given = np.array([prompt], np.int64)
    for _ in range(count):
        [logits] = session.run({tokens: given}, state=cache).values()
        given = logits[:, -1].argmax(-1)[:, None]
        yield int(given[0, 0])


def main():
    path, count, *prompt = sys.argv[1:]
    begin = time.monotonic()
    recipe = openhpu.compile(path, dims={"batch": 1, "seq": (1, MOST_PROMPT), "past": (0, MOST_PAST)},
                             states={"present_*": "past_*"})
    with openhpu.Session(recipe) as session:
        ready = time.monotonic()
        for token in generate(session, [int(one) for one in prompt], int(count)):
            print(token)
        print(f"ready in {ready - begin:.2f} s, then {int(count) / (time.monotonic() - ready):.0f} tokens/s", file=sys.stderr)


if __name__ == "__main__":
    main()
