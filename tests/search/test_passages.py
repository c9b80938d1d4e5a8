"""Passages: their offsets are exact, together they cover the document, and none is above the limit."""

from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.search import Document, PassageConfig, split_passages

texts = st.text(st.sampled_from("abc déß.!?\n\t “”’…—1,;:你\u2028"), max_size=300)


@given(texts, st.lists(st.integers(0, 300), max_size=4), st.integers(1, 12), st.integers(0, 3))
@settings(max_examples=200, deadline=None)
def test_offsets_are_exact_and_every_word_is_covered(text, headings, max_words, overlap):
    offsets = sorted({h for h in headings if h < len(text)})
    document = Document("x", text, tuple((h, f"h{h}") for h in offsets))
    found = list(split_passages(document, PassageConfig(max_words=max_words, overlap=overlap)))
    covered = [False] * len(text)
    for passage in found:
        assert document.text[passage.start : passage.end] == passage.text
        assert passage.text == passage.text.strip()
        assert 1 <= len(passage.text.split()) <= max_words
        assert not any(passage.start < h < passage.end for h in offsets), "no passage crosses a heading"
        assert passage.heading == document.heading(passage.start)
        covered[passage.start : passage.end] = [True] * (passage.end - passage.start)
    assert all(covered[i] for i, c in enumerate(text) if not c.isspace())
    starts = [p.start for p in found]
    assert len(set(starts)) == len(starts), "the start of a passage identifies it"


def test_sentences_stay_whole_and_overlap():
    document = Document("x", "One two three. Four five six. Seven eight nine.")
    found = [p.text for p in split_passages(document, PassageConfig(max_words=6, overlap=1))]
    assert found == ["One two three. Four five six.", "Four five six. Seven eight nine."]
    found = [p.text for p in split_passages(document, PassageConfig(max_words=6, overlap=0))]
    assert found == ["One two three. Four five six.", "Seven eight nine."]


def test_a_long_sentence_is_cut_at_words():
    document = Document("x", " ".join(f"w{i}" for i in range(10)))
    found = [p.text for p in split_passages(document, PassageConfig(max_words=4, overlap=0))]
    assert found == ["w0 w1 w2 w3", "w4 w5 w6 w7", "w8 w9"]
