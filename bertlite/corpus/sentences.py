"""Paragraphs -> sentences, by the library sentencex (Wikimedia Foundation).

sentencex takes any language code, the misspelt ones too, and is quadratic in the length of one string; so the code
is checked here, and a very long paragraph is cut into pieces first.
"""

from __future__ import annotations

import re

import sentencex

from bertlite.errors import InputError, nearest

# sentencex 1.0: the languages with rules of their own, and those that name another language to fall back on.
LANGUAGES_WITH_RULES = frozenset("""
    ab abs ace ady ady-cyrl aeb aeb-arab aln alt am ami an anp ar arn arq ary arz as ast atj av avk awa ay az
    azb ba ban ban-bali bar bbc bbc-latn bcc be be-tarask bg bgn bh bho bi bjn bm bn bpy bqi br bs btm bug bxr
    ca cbk cbk-zam cdo ce ckb co crh crh-cyrl crh-latn cs csb cv da de de-at de-ch de-formal dsb dtp dty egl el
    eml en en-ca en-gb eo es es-419 es-formal et ext fa ff fi fit fr frc frp frr fur gag gan gan-hans gan-hant
    gcr gl glk gn gom gom-deva gor gsw gu guc hak he hi hif hif-latn hr hrx hsb ht hu hu-formal hy hyw id ii
    ike-cans inh io it iu ja jam jut jv ka kaa kab kbd kbp khw kiu kjp kk kk-arab kk-cn kk-cyrl kk-kz kk-latn
    kk-tr kl kn ko ko-kp koi krc krl ks ks-arab ksh ku ku-arab ku-latn kum kv lad lb lbe lez li lij liv lki lld
    lmo ln lrc lt ltg luz lv lzh lzz mad mai map-bms mdf mg mhr min mk ml mnw mo mr mrj ms ms-arab mwl my myv
    mzn nah nan nap nb nds nds-nl ne nia nl nl-informal nn nrm oc olo os pa pcd pdc pdt pfl pih pl pms pnb pnt
    pt pt-br qu qug rgn rm rmy ro roa-tara ru rue rup ruq ruq-cyrl ruq-latn sa sah scn sco sdc sdh ses sg sgs sh
    shi shy shy-latn sk skr skr-arab sli smn sq sr sr-ec sr-el srn stq sty su szl szy ta tay tcy te tet tg
    tg-cyrl tr trv tt tt-cyrl ty tyv udm ug ug-arab uk ur vec vep vls vmf vot vro wa wo wuu xal xmf yi za zea
    zgh zh zh-cn zh-hans zh-hant zh-hk zh-mo zh-my zh-sg zh-tw
""".split())

# ISO 639-1 codes beyond these: sentencex splits them by its general rules (full stop, question mark, danda ...).
LANGUAGES_BY_GENERAL_RULES = frozenset("""
    aa ae af ak bo ch cr cu cy dv dz ee eu fj fo fy ga gd gv ha ho hz ia ie ig ik is kg ki kj km kr kw ky la lg
    lo lu mh mi mn mt na nd ng no nr nv ny oj om or pi ps rn rw sc sd se si sl sm sn so ss st sv sw th ti tk tl
    tn to ts tw uz ve vi vo xh yo zu
""".split())

LONGEST_PIECE = 10_000  # characters given to sentencex at once; its time grows with the square of this

_LIKELY_END = re.compile(r"[.!?\u2026]['\")\]\u201d\u2019]*\s|[\u3002\uff01\uff1f\u0964\u06d4]")


def check_language(language: str) -> None:
    """Raise InputError unless `language` is a code whose sentences can be split."""
    known = LANGUAGES_WITH_RULES | LANGUAGES_BY_GENERAL_RULES
    if language not in known:
        raise InputError(f"--language {language!r} is not a language code{nearest(language.lower(), known)}",
                         remedy="give an ISO 639 code such as en, de, zh or hi")


def split_sentences(paragraph: str, language: str) -> list[str]:
    """Return the sentences of one paragraph, without surrounding white space; none is empty."""
    sentences = []
    for piece in _pieces(paragraph):
        sentences += [stripped for s in sentencex.segment(language, piece) if (stripped := s.strip())]
    return sentences


def _pieces(paragraph: str) -> list[str]:
    """Cut a long paragraph after the last likely sentence end (else the last space) of each LONGEST_PIECE characters."""
    pieces, begin = [], 0
    while len(paragraph) - begin > LONGEST_PIECE:
        window = paragraph[begin : begin + LONGEST_PIECE]
        ends = [match.end() for match in _LIKELY_END.finditer(window)]
        cut = ends[-1] if ends else (window.rfind(" ") + 1 or LONGEST_PIECE)
        pieces.append(window[:cut])
        begin += cut
    pieces.append(paragraph[begin:])
    return pieces
