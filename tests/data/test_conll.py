"""CoNLL files as people have them: comments, ranges, tabs and spaces, and sentences that cannot be used."""

from __future__ import annotations

import pytest

from clearhead.data import columns_of, read_rows

UNIVERSAL = """# sent_id = 1
# text = He doesn't .
1\tHe\the\tPRON\t_\t_\t0\troot\t_\t_
2-3\tdoesn't\t_\t_\t_\t_\t_\t_\t_\t_
2\tdoes\tdo\tAUX\t_\t_\t1\taux\t_\t_
3\tn't\tnot\tPART\t_\t_\t1\tadvmod\t_\t_
3.1\tgo\tgo\tVERB\t_\t_\t_\t_\t_\t_

# a comment of just as many words as there are columns
1\t#\t#\tSYM\t_\t_\t0\troot\t_\t_
"""


def read(path, words, tags):
    rows = read_rows(path, {"words": words, "tags": tags})
    return [(row.values["words"], row.values["tags"], row.line) for row in rows], rows


def test_universal_dependencies(tmp_path):
    path = tmp_path / "a.conllu"
    path.write_text(UNIVERSAL)
    found, rows = read(path, "form", "upos")
    assert found == [(["He", "does", "n't"], ["PRON", "AUX", "PART"], 3), (["#"], ["SYM"], 10)]
    assert rows.report() == ""
    assert columns_of(path)[:4] == ["id", "form", "lemma", "upos"]


def test_spaces_document_breaks_and_a_word_that_is_a_hash(tmp_path):
    path = tmp_path / "b.conll"
    path.write_text("-DOCSTART- O\n\nEU B-ORG\n# O\n# a comment of four\n\n\nrejects O\n \t\nGerman B-MISC")
    assert read(path, "1", "2")[0] == [
        (["EU", "#"], ["B-ORG", "O"], 3), (["rejects"], ["O"], 8), (["German"], ["B-MISC"], 10),
    ]  # fmt: skip


def test_a_sentence_that_cannot_be_used_is_left_out_whole_and_told(tmp_path):
    path = tmp_path / "c.iob2"
    path.write_bytes(b"1\tgood\tO\n\n1\tbad\n2\tworse\tO\n\n1\t\tO\n\n1\t\xff\tO\n\n1\tend\tO\n")
    found, rows = read(path, "2", "3")
    assert [words for words, _, _ in found] == [["good"], ["end"]]
    assert rows.num_skipped == 3
    assert "line 3: has 2 columns, expected at least 3" in rows.report()
    assert "line 6: 'words' is empty" in rows.report()
    assert "not UTF-8" in rows.report()


def test_a_column_that_is_not_there(tmp_path):
    path = tmp_path / "d.conll"
    path.write_text("EU B-ORG\n")
    with pytest.raises(ValueError, match="no column '3': the columns are '1', '2'"):
        read(path, "1", "3")
    path.write_text("# nothing\n\n")
    with pytest.raises(ValueError, match="has no words"):
        read(path, "1", "2")
