"""Building a token store: beside `encode_batch_fast` alone on the same sentences, and memory at two sizes.

Command   python bench/corpus.py [--data FILES...] [--megabytes 100 1000]
The first table alternates both ways in one run; the second builds stores of text repeated to each size in a process
of its own and samples its anonymous memory (RssAnon: pages of mapped files do not count).
"""

import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from importlib import resources
from pathlib import Path

import tyro

from bertlite.corpus.documents import Layout, document_sentences, find_sources, read_documents
from bertlite.corpus.store_builder import build_store
from bertlite.corpus.tokenizer import TokenizerSettings, WordPiece, train_wordpiece, wordpiece_from_json

LAYOUT = Layout(language="en")
BUILD = """
import sys
from pathlib import Path
from bertlite.corpus.documents import Layout
from bertlite.corpus.store_builder import build_store
from bertlite.corpus.tokenizer import wordpiece_from_json
build_store([Path(sys.argv[1])], wordpiece_from_json(sys.argv[2]), Layout(language="en"), sys.argv[3])
"""


def main(data: tuple[Path, ...] = (), megabytes: tuple[int, ...] = (), repeats: int = 5) -> None:
    sources = find_sources(data or [str(resources.files("bertlite.demo") / "pd-docs-en-train-00.txt")])
    sentences = [s for path in sources for document in read_documents(path, LAYOUT) for s in document_sentences(document, LAYOUT, "en")]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        train_wordpiece(sentences, TokenizerSettings(vocab_size=8000, case="uncased", accents="strip")).backend.save(str(folder / "t.json"))
        # Loaded from its file, as every run but the first has it: a fresh cache on both sides.
        print(speed(sources, sentences, folder, repeats))
        if megabytes:
            print(memory(sources, folder, megabytes))


def speed(sources: list[Path], sentences: list[str], folder: Path, repeats: int) -> str:
    alone, whole = [], []
    characters = sum(map(len, sentences))
    for _ in range(repeats):
        tokenizer = wordpiece_from_json(folder / "t.json")
        begin = time.perf_counter()
        encode_alone(tokenizer, sentences)
        alone.append(time.perf_counter() - begin)
        tokenizer = wordpiece_from_json(folder / "t.json")
        shutil.rmtree(folder / "store", ignore_errors=True)
        begin = time.perf_counter()
        store = build_store(sources, tokenizer, LAYOUT, folder / "store")
        whole.append(time.perf_counter() - begin)
    ratios = [a / b for a, b in zip(alone, whole, strict=True)]
    return (f"{characters / 1e6:.1f} M characters, {store.counts.tokens:,} tokens, {len(sentences):,} sentences\n"
            f"encode_batch_fast alone  {statistics.median(alone):6.2f} s   {store.counts.tokens / statistics.median(alone):,.0f} tokens/s\n"
            f"store building, whole    {statistics.median(whole):6.2f} s   {store.counts.tokens / statistics.median(whole):,.0f} tokens/s\n"
            f"share of the tokenizer's speed: median {statistics.median(ratios):.2f} ({', '.join(f'{r:.2f}' for r in ratios)})")


def encode_alone(tokenizer: WordPiece, sentences: list[str]) -> None:
    for begin in range(0, len(sentences), 10_000):
        tokenizer.backend.encode_batch_fast(sentences[begin : begin + 10_000], add_special_tokens=False)


def memory(sources: list[Path], folder: Path, megabytes: tuple[int, ...]) -> str:
    lines = ["   text      seconds   peak RssAnon"]
    text = b"\n".join(path.read_bytes() for path in sources)
    for size in megabytes:
        path = folder / "repeated.txt"
        with open(path, "wb") as handle:
            while handle.tell() < size * 1_000_000:
                handle.write(text + b"\n\n")
        shutil.rmtree(folder / "store", ignore_errors=True)
        begin = time.perf_counter()
        process = subprocess.Popen([sys.executable, "-c", BUILD, str(path), str(folder / "t.json"), str(folder / "store")])
        peak = 0
        while process.poll() is None:
            peak = max(peak, rss_anon(process.pid))
            time.sleep(0.05)
        lines.append(f"{size:>6,} MB  {time.perf_counter() - begin:>9.1f}   {peak / 1024:>8.0f} MiB")
    return "\n".join(lines)


def rss_anon(process: int) -> int:
    """Return a process's anonymous memory in KiB (Linux)."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next((int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon")), 0)


if __name__ == "__main__":
    tyro.cli(main)
