"""The command line: parses, calls runs/, prints what a verb returns, turns errors into exit codes.

0 done; 2 the user's input is wrong, one clear message; 130 and 143 stopped with state saved; 1 anything else.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib
import importlib.metadata
import io
import json
import re
import sys
from collections.abc import Sequence
from typing import Any

from bertlite.errors import InputError, Stopped

# verb -> (module, settings class, function); loaded only when the verb is called.
VERBS = {
    "demo": ("bertlite.demo.story", "DemoRun", "run_demo"),
    "tokenizer": ("bertlite.runs.tokenizer", "TokenizerRun", "train_tokenizer"),
    "corpus": ("bertlite.runs.corpus", "CorpusRun", "build_corpus"),
    "pretrain": ("bertlite.runs.pretrain", "PretrainRun", "pretrain"),
    "finetune": ("bertlite.runs.finetune", "FinetuneRun", "finetune"),
    "evaluate": ("bertlite.runs.evaluate", "EvaluateRun", "evaluate"),
    "predict": ("bertlite.runs.predict", "PredictRun", "predict"),
    "embed": ("bertlite.runs.embed", "EmbedRun", "embed"),
    "fill-mask": ("bertlite.runs.fill_mask", "FillMaskRun", "fill_mask"),
    "similar": ("bertlite.runs.similar", "SimilarRun", "similar"),
    "report": ("bertlite.runs.report", "ReportRun", "make_report"),
}
PRINTED = ("evaluate", "fill-mask")  # verbs whose result is data, for standard output

HELP = """bertlite: pretrain BERT on your own text, fine-tune it on your task, take embeddings from it.

  demo         the whole path on the text that ships with bertlite, in minutes
  tokenizer    raw text -> a WordPiece vocabulary
  corpus       raw text -> a token store, which pretrain takes as --corpus
  pretrain     raw text -> a BERT pretrained on it
  finetune     a BERT and labelled rows -> a classifier, tagger, regressor or reader of passages
  evaluate     a model's figures on labelled rows or raw text, as JSON
  predict      rows -> the same rows with labels and probabilities
  embed        texts -> vectors
  fill-mask    a text with [MASK] -> the likeliest words
  similar      pairs scored, nearest texts found, texts parted into clusters
  report       a run's page, or several runs on one

bertlite VERB --help lists a verb's flags."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and exit with its code."""
    for channel in (sys.stdin, sys.stdout, sys.stderr):
        if hasattr(channel, "reconfigure"):  # on Windows they are in the locale's code page
            channel.reconfigure(encoding="utf-8")
    sys.exit(run(list(sys.argv[1:] if arguments is None else arguments)))


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code."""
    try:
        if not arguments or arguments[0] in ("-h", "--help"):
            print(HELP)
            return 0
        if arguments[0] == "--version":
            print(importlib.metadata.version("bertlite"))
            return 0
        return _call(arguments[0], arguments[1:])
    except InputError as error:
        print(f"bertlite: {error}", file=sys.stderr)
        return 2
    except Stopped as stopped:
        print(f"bertlite: {stopped}", file=sys.stderr)
        return stopped.code
    except KeyboardInterrupt:
        print("bertlite: stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output has gone
        sys.stderr.close()
        return 0


def _call(verb: str, arguments: list[str]) -> int:
    if verb not in VERBS:
        close = difflib.get_close_matches(verb, VERBS, n=1)
        raise InputError(f"there is no verb {verb!r}" + (f", did you mean {close[0]}?" if close else ""),
                         remedy=f"the verbs are {', '.join(VERBS)}")
    module_name, settings_name, function_name = VERBS[verb]
    module = importlib.import_module(module_name)
    settings = parse(verb, getattr(module, settings_name), arguments)
    if settings is None:
        return 0
    result = getattr(module, function_name)(**settings)
    if verb in PRINTED:
        print(json.dumps(result, ensure_ascii=False, indent=2))
    return 0


def parse(verb: str, kind: type, arguments: list[str]) -> dict[str, Any] | None:
    """Parse flags into the keywords of a verb's function; None after --help.

    Raises InputError for anything that is not understood.
    """
    import tyro  # slow to load

    from bertlite.config import to_dict
    from bertlite.runs.settings import from_config

    arguments, config = _take_config(arguments)
    if "--help" not in arguments and "-h" not in arguments:
        _check_flags(verb, kind, arguments)
    default = from_config(kind, config, arguments) if config is not None else None
    said, shown = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(shown):
            parsed = tyro.cli(kind, prog=f"bertlite {verb}", args=arguments, default=default)  # type: ignore[call-overload]
    except InputError:
        raise
    except SystemExit as end:
        if end.code in (0, None):
            print(_without_none(shown.getvalue()), end="")
            return None
        raise InputError(_plain(said.getvalue()), remedy=f"bertlite {verb} --help lists the flags") from None
    return to_dict(parsed)


def _take_config(arguments: list[str]) -> tuple[list[str], str | None]:
    """Take `--config FILE` out of the arguments."""
    if arguments and arguments[-1] == "--config":
        raise InputError("--config names no file")
    for index, argument in enumerate(arguments):
        if argument == "--config" and index + 1 < len(arguments):
            return arguments[:index] + arguments[index + 2 :], arguments[index + 1]
        if argument.startswith("--config="):
            return arguments[:index] + arguments[index + 1 :], argument.partition("=")[2]
    return arguments, None


def _check_flags(verb: str, kind: type, arguments: list[str]) -> None:
    """Raise InputError naming the nearest flag for one that is mistyped."""
    import tyro

    parser = tyro.extras.get_parser(kind)
    known = {option for action in parser._actions for option in action.option_strings}
    for argument in arguments:
        flag = argument.partition("=")[0].replace("_", "-")
        if not re.fullmatch(r"--[a-z][\w.-]*", flag) or flag in known:
            continue
        close = difflib.get_close_matches(flag, known, n=1)
        raise InputError(f"there is no flag {flag}" + (f", did you mean {close[0]}?" if close else ""),
                         remedy=f"bertlite {verb} --help lists the flags")


def _without_none(text: str) -> str:
    """Blank out None and empty defaults of a help text, which say nothing to a user; columns stay in line."""
    text = re.sub(r"\{None\}\|(\S+)", lambda match: match[1] + " " * 7, text)
    text = re.sub(r"\{None,(\S+)\}", lambda match: "{" + match[1] + "}" + " " * 5, text)
    without = r"\(default:[\s│]*(None|\['None'\])?[\s│]*\)"
    return re.sub(without, lambda match: re.sub(r"[^\s│]", " ", match[0]), text)


def _plain(box: str) -> str:
    """Return the message of tyro's box as one sentence: what stands between its title and its next rule."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", box)
    lines = [line.strip("│| \t") for line in text.splitlines()[1:]]
    rules = [number for number, line in enumerate(lines) if re.fullmatch(r"[─╰╯+-]+", line)]
    # Where the terminal's encoding is not known, the box is drawn in ASCII, with a rule under its title.
    end = next((number for number in rules if number > 0), len(lines))
    words = [line for number, line in enumerate(lines[:end]) if line and number not in rules]
    if words and words[0].startswith("Missing from"):
        flags = [re.split(r"[ /]", line)[0] for line in words if line.startswith("--")]
        return f"{' and '.join(flags) or words[1]} must be given"
    message = re.sub(r", 'None'|'None', ", "", " ".join(words)).removesuffix(".")
    wrong = re.search(r"Error parsing (--\S+): (?:no type matching \S*?(\w+) could be instantiated from \['(.*?)'\]"
                      r"|.*?invalid literal for (int).*?: '(.*?)'|could not convert string to (float): '(.*?)')", message)
    if wrong:
        kind = (wrong[2] or wrong[4] or wrong[6]).lower()
        number = {"int": "a whole number", "float": "a number"}.get(kind, f"a {kind}")
        return f"{wrong[1]} must be {number}; got {wrong[3] or wrong[5] or wrong[7]!r}"
    wrapped = re.search(r"Error parsing \w+: (--.*)", message)  # a check of our own inside tyro's words
    return wrapped[1] if wrapped else message or "the arguments were not understood"
