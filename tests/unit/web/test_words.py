"""Every word that a screen says is in every language, with the same values in it."""

import re

import pytest

from tests.kit.web_files import texts

ENTRY = re.compile(r'^  "((?:[^"\\]|\\.)+)": "((?:[^"\\]|\\.)*)",$', re.M)
SAID = re.compile(r'\bt\("([^"]+)"')
VALUE = re.compile(r"\{(\w+)\}")
MADE_UP = ("cause.", "screen.", "state.")
"""How words begin whose rest is a value of the fleet."""

ENGLISH = dict(ENTRY.findall(texts()["words/en.js"]))
LANGUAGES = {path: dict(ENTRY.findall(text)) for path, text in texts().items() if path.startswith("words/")}
SCREENS = "".join(text for path, text in texts().items() if path.endswith(".js") and not path.startswith("words/"))


def test_every_word_that_is_said_is_known() -> None:
    said = set(SAID.findall(SCREENS))
    assert said
    assert not said - ENGLISH.keys()


def test_every_word_that_is_known_is_said() -> None:
    spoken = {word for word in ENGLISH if f'"{word}"' in SCREENS or word.startswith(MADE_UP)}
    assert not ENGLISH.keys() - spoken


@pytest.mark.parametrize("path", sorted(LANGUAGES))
def test_a_language_has_the_words_of_the_first_one(path: str) -> None:
    words = LANGUAGES[path]
    assert words.keys() == ENGLISH.keys()
    for word, text in words.items():
        assert set(VALUE.findall(text)) == set(VALUE.findall(ENGLISH[word])), word


def test_chinese_is_not_english() -> None:
    same = {word for word, text in LANGUAGES["words/zh.js"].items() if text == ENGLISH[word]}
    assert not {word for word in same if re.search("[a-z]{3}", ENGLISH[word])}
