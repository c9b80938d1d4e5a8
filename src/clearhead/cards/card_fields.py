"""The metadata of a card by the rules that the hub publishes: licenses, languages, tasks and results."""

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

_LICENSES = """
    afl-3.0 agpl-3.0 apache-2.0 apple-amlr apple-ascl artistic-2.0 bigcode-openrail-m bigscience-bloom-rail-1.0
    bigscience-openrail-m bsd bsd-2-clause bsd-3-clause bsd-3-clause-clear bsl-1.0 c-uda cc cc-by-2.0 cc-by-2.5
    cc-by-3.0 cc-by-4.0 cc-by-nc-2.0 cc-by-nc-3.0 cc-by-nc-4.0 cc-by-nc-nd-3.0 cc-by-nc-nd-4.0 cc-by-nc-sa-2.0
    cc-by-nc-sa-3.0 cc-by-nc-sa-4.0 cc-by-nd-4.0 cc-by-sa-3.0 cc-by-sa-4.0 cc0-1.0 cdla-permissive-1.0
    cdla-permissive-2.0 cdla-sharing-1.0 creativeml-openrail-m deepfloyd-if-license ecl-2.0 epl-1.0 epl-2.0 etalab-2.0
    eupl-1.1 eupl-1.2 fair-noncommercial-research-license gemma gfdl gpl gpl-2.0 gpl-3.0 grok2-community h-research
    intel-research isc lgpl lgpl-2.1 lgpl-3.0 lgpl-lr llama2 llama3 llama3.1 llama3.2 llama3.3 llama4 lppl-1.3c mit
    mpl-2.0 ms-pl ncsa odbl odc-by ofl-1.1 openmdw-1.0 openrail openrail++ osl-3.0 other pddl postgresql unknown
    unlicense wtfpl zlib"""
_ISO_639_1 = """
    aa ab ae af ak am an ar as av ay az ba be bg bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz ee el en eo es
    et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik io is it iu ja jv ka kg ki
    kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne ng nl nn no
    nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg si sk sl sm sn so sq sr ss st su sv sw ta te
    tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu"""
LICENSES = frozenset(_LICENSES.split())  # identifiers of the hub
ISO_639_1 = frozenset(_ISO_639_1.split())
PIPELINE_TAGS = {
    "classify": "text-classification", "pair": "text-classification", "tag": "token-classification",
    "qa": "question-answering", "translate": "translation", "language_model": "text-generation",
    "dialogue": "text-generation", "masked_lm": "fill-mask", "embed": "sentence-similarity", "rerank": "text-ranking",
    "answer": "question-answering", "caption": "image-to-text", "draw": "text-to-image",
}  # fmt: skip
IMAGE_TAGS = {"classify": "image-classification"}
METRICS = {  # the names of the hub's metrics; others keep ours
    "exact": "exact_match", "macro_f1": "f1", "micro_f1": "f1", "pearson": "pearsonr", "pair_accuracy": "accuracy",
    "spearman": "spearmanr",
}  # fmt: skip
HUB_METRICS = {
    "accuracy", "bleu", "chrf", "exact_match", "f1", "pearsonr", "perplexity", "precision", "recall", "spearmanr",
}  # fmt: skip
SIZES = (
    (10**3, "n<1K"), (10**4, "1K<n<10K"), (10**5, "10K<n<100K"), (10**6, "100K<n<1M"), (10**7, "1M<n<10M"),
    (10**8, "10M<n<100M"), (10**9, "100M<n<1B"), (10**10, "1B<n<10B"), (10**11, "10B<n<100B"), (10**12, "100B<n<1T"),
)  # fmt: skip

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")


def check_license(value: str) -> str:
    """Return the hub's identifier of a license, in lower case; ValueError suggests the closest one."""
    identifier = value.strip().lower().replace(" ", "-")
    if identifier not in LICENSES:
        near = get_close_matches(identifier, sorted(LICENSES), n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(near)}? " if near else ""
        raise ValueError(
            f"{value!r:.100} is not a license identifier of the hub: {hint}Give one such as apache-2.0, mit or "
            "cc-by-4.0; 'other' with license_name for any other license"
        )
    return identifier


def license_id(text: str) -> str:
    """Return the hub's identifier of a license that a catalog names: `other` where it is none of the hub's."""
    identifier = text.strip().lower().replace(" ", "-")
    if identifier in LICENSES:
        return identifier
    return "unknown" if identifier in ("none-stated", "none", "") else "other"


def check_language(value: str) -> str:
    """Return an ISO 639 code of two or three letters, or `code` or `multilingual`, in lower case."""
    code = value.strip().lower()
    if code in ISO_639_1 or code in ("code", "multilingual") or re.fullmatch("[a-z]{3}", code):
        return code
    raise ValueError(
        f"{value!r:.100} is not a language code: give ISO 639 codes such as en, de or gsw, separated by commas"
    )


def size_category(rows: int) -> str:
    """Return the hub's name of the size of a data set."""
    return next((name for limit, name in SIZES if rows < limit), "n>1T")


def metric_type(name: str) -> str:
    return METRICS.get(name, name)


def hub_metrics(names: Sequence[str]) -> list[str]:
    """Return those of our metrics that the hub lists, under its names."""
    return list(dict.fromkeys(metric_type(name) for name in names if metric_type(name) in HUB_METRICS))


def check_fields(fields: Mapping[str, Any]) -> None:
    """Raise ValueError where the metadata of a card breaks a rule of the hub."""
    problems: list[str] = []

    def check(holds: bool, problem: str) -> None:
        if not holds:
            problems.append(problem)

    license, languages = fields.get("license"), fields.get("language", [])
    check(license is None or license in LICENSES, f"license {license!r} is not an identifier of the hub")
    check(license != "other" or bool(fields.get("license_name")), "license 'other' needs license_name")
    for code in [languages] if isinstance(languages, str) else languages:
        known = isinstance(code, str) and (code in ISO_639_1 or code in ("code", "multilingual") or len(code) == 3)
        check(known, f"language {code!r} is not an ISO 639 code")
    tags = {*PIPELINE_TAGS.values(), *IMAGE_TAGS.values()}
    check(fields.get("pipeline_tag", None) in {None, *tags}, f"pipeline_tag {fields.get('pipeline_tag')!r} is unknown")
    base = fields.get("base_model")
    for name in [*([base] if isinstance(base, str) else base or []), *fields.get("datasets", [])]:
        check(isinstance(name, str) and _HUB_ID.fullmatch(name) is not None, f"{name!r} is not a name on the hub")
    for index in fields.get("model-index", []):
        check(bool(index.get("name")), "model-index has no name")
        for result in index.get("results", []):
            data = result.get("dataset", {})
            check(bool(result.get("task", {}).get("type")), "a result of model-index has no task type")
            check(bool(data.get("type")) and bool(data.get("name")), "a result of model-index has no data set")
            for metric in result.get("metrics", [{}]):
                value = metric.get("value")
                number = isinstance(value, int | float) and not isinstance(value, bool) and value == value
                check(bool(metric.get("type")) and number, "a metric of model-index has no type or no number")
    if problems:
        raise ValueError(f"the metadata of the card is not valid: {'; '.join(problems)}")
