"""Raw text in every layout, and what is wrong with some of it."""

import gzip
import json

import datasets
import pytest

from bertlite.corpus.documents import Layout, find_sources, layout_advice, read_documents
from bertlite.corpus.sentences import check_language, split_sentences
from bertlite.errors import InputError


def write(path, text, encoding="utf-8"):
    path.write_bytes(text.encode(encoding))
    return path


def lines_of(path, **layout):
    return [document.lines for document in read_documents(path, Layout(**layout))]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_blank_line_ends_a_document(tmp_path, end):
    path = write(tmp_path / "a.txt", end.join(["one", "two", "", "", "three", ""]))
    assert lines_of(path) == [["one", "two"], ["three"]]
    assert lines_of(path, document="file") == [["one", "two", "three"]]


def test_wrapped_pieces_become_paragraphs(tmp_path):
    path = write(tmp_path / "a.txt", "a long\nparagraph\n\nand another\none\n")
    assert lines_of(path, line="wrapped", document="file") == [["a long paragraph", "and another one"]]
    assert lines_of(write(tmp_path / "b.txt", "他来\n了。\n"), line="wrapped") == [["他来了。"]]


def test_byte_order_marks_and_other_encodings(tmp_path):
    assert lines_of(write(tmp_path / "a.txt", "\ufeffé\n")) == [["é"]]
    assert lines_of(write(tmp_path / "b.txt", "é\n", "latin-1"), encoding="latin-1") == [["é"]]
    assert lines_of(write(tmp_path / "c.txt", "é\n\nü\n", "utf-16"), encoding="utf-16") == [["é"], ["ü"]]


@pytest.mark.parametrize(("content", "words"), [
    (b"good\nbad \xff\n", r"a\.txt, line 2: the text is not utf-8"),
    (b"good\n\nnul \x00\n", r"a\.txt, line 3: the line holds a NUL byte"),
])
def test_bad_bytes_are_named_with_file_and_line(tmp_path, content, words):
    (tmp_path / "a.txt").write_bytes(content)
    with pytest.raises(InputError, match=words):
        lines_of(tmp_path / "a.txt")


def test_rows_are_documents(tmp_path):
    rows = [{"text": "one.\ntwo."}, {"text": "three."}, {"text": ""}]
    write(tmp_path / "a.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    write(tmp_path / "a.csv", 'text,n\n"one.\ntwo.",1\nthree.,2\n')
    datasets.Dataset.from_list(rows).to_parquet(tmp_path / "a.parquet")
    datasets.Dataset.from_list(rows).save_to_disk(tmp_path / "saved")
    with gzip.open(tmp_path / "a.jsonl.gz", "wb") as handle:
        handle.write((tmp_path / "a.jsonl").read_bytes())
    for name in ("a.jsonl", "a.csv", "a.parquet", "a.jsonl.gz", "saved"):
        assert lines_of(tmp_path / name) == [["one.", "two."], ["three."]], name


@pytest.mark.parametrize(("name", "content", "words"), [
    ("a.jsonl", '{"text": "x"}\n{"text": \n', r"a\.jsonl, line 2: not valid JSON"),
    ("a.jsonl", "[1]\n", "line 1: a line must be a JSON object"),
    ("a.jsonl", '{"texts": "x"}\n', "no column 'text', did you mean texts"),
    ("a.jsonl", '{"text": 3}\n', "holds int, not text"),
    ("a.csv", "text,n\na,1,2\n", "line 2: the row has 3 columns, the first one has 2"),
    ("a.csv", "body\na\n", "--text-column names one of body"),
    ("a.parquet", "no parquet", "not a readable parquet file"),
    ("a.txt.gz", "no gzip", "not a whole gzip file"),
])
def test_malformed_rows_are_named(tmp_path, name, content, words):
    with pytest.raises(InputError, match=words):
        lines_of(write(tmp_path / name, content))


def test_sources_are_files_folders_and_globs_each_once(tmp_path):
    (tmp_path / "sub").mkdir()
    for name in ("b.txt", "a.txt", "sub/c.jsonl", "notes.md"):
        write(tmp_path / name, "x")
    assert [p.name for p in find_sources([tmp_path])] == ["a.txt", "b.txt", "c.jsonl"]
    assert [p.name for p in find_sources([tmp_path / "*.txt", tmp_path / "a.txt"])] == ["a.txt", "b.txt"]
    for wrong in (tmp_path / "none", tmp_path / "*.zip", tmp_path / "notes.md"):
        with pytest.raises(InputError):
            find_sources([wrong])
    with pytest.raises(InputError, match="--corpus is empty"):
        find_sources([])


def test_a_layout_that_looks_wrong_is_pointed_out(tmp_path):
    wrapped = write(tmp_path / "a.txt", "\n".join(["a line of some sixty characters that goes on to the next one"] * 80))
    documents = list(read_documents(wrapped, Layout()))
    assert "--line wrapped" in (layout_advice(documents, [80], Layout()) or "")
    spaced = write(tmp_path / "b.txt", "\n\n".join(["One sentence."] * 30))
    documents = list(read_documents(spaced, Layout()))
    assert "--document file" in (layout_advice(documents, [1] * 30, Layout()) or "")
    assert layout_advice(documents, [2] * 30, Layout()) is None


def test_sentences_of_english_and_chinese():
    assert split_sentences('Mr. Fox saw it. He ran! "Why?" said he.', "en") == ["Mr. Fox saw it.", "He ran!", '"Why?" said he.']
    assert split_sentences("他来了。我走了！你呢？", "zh") == ["他来了。", "我走了！", "你呢？"]


def test_a_paragraph_of_ten_megabytes_is_split_in_seconds():
    sentence = "The quick brown fox jumps over the lazy dog. "
    sentences = split_sentences(sentence * (10_000_000 // len(sentence)), "en")
    assert set(sentences) == {sentence.strip()}
    assert "".join(split_sentences("x" * 50_000, "en")) == "x" * 50_000


@pytest.mark.parametrize("code", ["", "zzz", "English", "e n"])
def test_a_language_that_is_none_is_refused(code):
    with pytest.raises(InputError, match="not a language code"):
        check_language(code)
    for known in ("en", "zh", "sv", "sr-ec"):
        check_language(known)
