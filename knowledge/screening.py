"""The second filter on content: what should not become retrievable, with the reason.

Precision comes first: prose about prompts, models, keys and APIs is documentation and passes. What is kept out is
text that *is* such a thing: a model talking about itself or continuing a compacted session, a script or file that is
a recorded request, a credential, an order to whichever model reads it. Made to be asked once per chunk.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from knowledge.chunking.kinds import PROSE, extension, kind_of

VerdictKind = Literal["llm", "secret", "instructions", "personal"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why a text is kept out: the kind of trouble and a reason to show, which never quotes the finding."""

    kind: VerdictKind
    reason: str


def screen(text: str, *, path: str) -> Verdict | None:
    """The first trouble with a chunk's text, None when it may be indexed. Linear in the text's length.

    `path` decides whether the text is prose, in which examples of requests are welcome, or a script.
    """
    return _secret(text) or _model_talk(text) or _recorded_request(text, path) or _instructions(text)


# --- a model talking ---------------------------------------------------------------------------------------------
# Matched at the start of a line only: quoted or discussed, such a phrase stands in quotes or in mid-sentence.
_COMPACTION = re.compile(
    r"^[ \t*>#]{0,8}(?:"
    r"This session is being continued from a previous conversation\b"
    r"|The conversation is summarized below\b"
    r"|Your task is to create a detailed summary of the conversation so far\b"
    r"|Please continue the conversation from where we left (?:it )?off\b"
    r"|Esta sesión (?:es la continuación|continúa) de una conversación anterior\b"
    r"|Эта сессия продолжает предыдущ(?:ий|ую) (?:разговор|беседу|диалог)\b"
    r")",
    re.IGNORECASE | re.MULTILINE,
)
_SELF_TALK = re.compile(
    r"^[ \t*>#]{0,8}(?:(?:I[’']m (?:sorry|afraid)|I apologi[sz]e|Sorry|Unfortunately|Lo siento|Извините|К сожалению)"
    r"\W{1,3}(?:but |pero |но )?)?"
    r"(?:as an? (?:AI(?: language)? (?:model|assistant)|large language model)\W{1,3}I\b"
    r"|I(?:[’']m| am) (?:just |only )?an AI(?: language)? (?:model|assistant)\b"
    r"|como (?:un )?(?:modelo de lenguaje|asistente de IA|IA)\b[^.\n]{0,40}\W(?:no|yo) "
    r"|как (?:(?:большая )?языковая модель|ИИ(?:-ассистент)?)\b[^.\n]{0,20}\Wя\b)",
    re.IGNORECASE | re.MULTILINE,
)
_NO_ACCESS = re.compile(
    r"^[ \t*>#]{0,8}(?:(?:I[’']m sorry|I apologi[sz]e|Sorry|Unfortunately)\W{1,3}(?:but )?)?"
    r"I (?:don[’']t|do not|can(?:no|[’'])t) (?:currently )?(?:have|directly )?\s?"
    r"(?:access|see|read|browse)(?: to)? (?:your |the |any )?(?:\w+ )?"
    r"(?:files?|codebase|repository|file ?system|internet|conversation)\b[^\n]{0,400}"
    r"(?:(?:is there anything else|how (?:else )?can) I (?:can )?help|(?:please|could you) (?:share|paste|provide)\b)",
    re.IGNORECASE | re.MULTILINE,
)


def _model_talk(text: str) -> Verdict | None:
    if _COMPACTION.search(text):
        return Verdict("llm", "the summary of a compacted model session")
    if _SELF_TALK.search(text) or _NO_ACCESS.search(text):
        return Verdict("llm", "a language model talking about itself")
    return None


# --- recorded requests -------------------------------------------------------------------------------------------
# A question of several words, written out: `"content":"$QUESTION"` or "ping" is a script at work, not a recording.
_QUESTION = re.compile(
    r"\\?[\"']role\\?[\"']\s{0,4}:\s{0,4}\\?[\"']user\\?[\"']\s{0,4},\s{0,40}\\?[\"']content\\?[\"']\s{0,4}:\s{0,4}"
    r"\\?[\"'][^\"'$\\{}<]{0,200}?\w\s+\w[^\"'$\\{}<]{0,200}?\s\w"
)
_MESSAGES = re.compile(r"\\?[\"']messages\\?[\"']\s{0,4}:\s{0,4}\[")
_OPTIONS = re.compile(r"[\"'](?:model|max_tokens|temperature|stream)\\?[\"']\s{0,4}:")
_ENDPOINT = re.compile(r"/v1/messages\b|/chat/completions\b|/v1/complete\b")
_SHELL_CALL = re.compile(r"\b(?:curl|wget|https?|Invoke-(?:RestMethod|WebRequest))\b", re.IGNORECASE)
_CODE_CALL = re.compile(r"\b(?:(?:requests|httpx|client|session|axios|http)\.(?:post|request)|fetch|urlopen)\s{0,4}\(")
_SHELLS = frozenset({"sh", "bash", "ps1"})


def _recorded_request(text: str, path: str) -> Verdict | None:
    """A written-out question in a request body that a script sends, or that is the whole of a JSON file."""
    language = extension(path)
    if kind_of(path) in PROSE or language in ("html", "csv"):
        return None
    if not (_MESSAGES.search(text) and _QUESTION.search(text) and _OPTIONS.search(text)):
        return None
    if language in _SHELLS:
        sends = bool(_ENDPOINT.search(text) and _SHELL_CALL.search(text))
    elif language == "json":
        sends = _is_request(text)
    else:
        sends = bool(_ENDPOINT.search(text) and _CODE_CALL.search(text))
    return Verdict("llm", "a model API request with its question written out") if sends else None


def _is_request(text: str) -> bool:
    """Whether a JSON text is a request itself: its first keys are a request's, and not those of a schema."""
    head = text.lstrip()[:300]
    return head.startswith("{") and bool(_OPTIONS.search(head) or _MESSAGES.search(head)) and "$schema" not in head


# --- credentials -------------------------------------------------------------------------------------------------
# Known formats only, each as its issuer documents it; guessing by entropy would flag hashes and test data.
_CREDENTIALS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("an AWS access key", re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b")),
    ("a GitHub token", re.compile(r"\bgh[opusr]_[A-Za-z0-9]{36,255}\b|\bgithub_pat_[A-Za-z0-9_]{60,255}\b")),
    ("a GitLab token", re.compile(r"\bglpat-[\w-]{20,64}")),
    (
        "a Slack token",
        re.compile(r"\bxox[abeoprs]-[0-9]{8,}-[A-Za-z0-9-]{10,250}|\bxapp-[0-9]-[A-Z0-9]{8,}-[A-Za-z0-9-]{10,250}"),
    ),
    ("a Stripe key", re.compile(r"\b[rs]k_live_[A-Za-z0-9]{16,255}\b")),
    ("an Anthropic key", re.compile(r"\bsk-ant-[a-z]{3,10}[0-9]{2}-[\w-]{40,255}")),
    (
        "an OpenAI key",
        re.compile(r"\bsk-(?:proj|svcacct|admin)-[\w-]{40,255}|\bsk-[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20}\b"),
    ),
    ("a Google API key", re.compile(r"\bAIza[\w-]{35}(?![\w-])")),
    ("a key of this platform", re.compile(r"\bkb_sk_[A-Za-z0-9]{4,64}_[A-Za-z0-9]{43}\b")),
    (
        "a private key",
        re.compile(
            r"-----BEGIN (?:[A-Z]{2,12} ){0,2}PRIVATE KEY(?: BLOCK)?-----(?:\s|\\n|[A-Za-z-]{1,20}: [^\n]{0,80}){0,40}"
            r"[A-Za-z0-9+/=]{40}"
        ),
    ),
)
_PLACEHOLDER = re.compile(
    r"example|sample|dummy|placeholder|redacted|fake|your|xxxx|0000|1234567|abcdefg", re.IGNORECASE
)


def _secret(text: str) -> Verdict | None:
    for name, pattern in _CREDENTIALS:
        for found in pattern.finditer(text):
            if not _is_placeholder(found[0]):
                return Verdict("secret", f"it holds {name}")
    return None


def _is_placeholder(credential: str) -> bool:
    """What documentation shows in place of a key: a word, a run, hardly any different characters."""
    return bool(_PLACEHOLDER.search(credential)) or len(set(credential[-24:])) < 8


# --- orders to the reader ----------------------------------------------------------------------------------------
_ORDER = re.compile(
    r"(?:^[ \t*>#-]{0,8}|<!--[ \t]{0,8}|[.!?:][ \t]{1,4})(?:"
    r"(?:please )?(?:ignore|disregard|forget) (?:all |any )?(?:of )?(?:the |your )?(?:previous|prior|above|earlier)"
    r" (?:instructions|prompts?|rules)"
    r"|ignora (?:todas )?(?:las )?instrucciones (?:anteriores|previas)"
    r"|(?:проигнорируй|игнорируй|забудь)(?:те)? (?:все )?(?:предыдущие|прежние) (?:инструкции|указания)"
    r")\b",
    re.IGNORECASE | re.MULTILINE,
)
_DEMAND = re.compile(
    r"\b(?:you are now|you must|reveal|print|send|output|reply|respond|say|tell|answer|execute|run|call|system prompt"
    r"|ahora eres|revela|envía|responde|ejecuta|muestra|di|теперь ты|раскрой|отправь|ответь|выполни|выведи|скажи)\b",
    re.IGNORECASE,
)
_DISCUSSION = re.compile(
    r"injection|inyecci[oó]n|инъекци|jailbreak|OWASP|attack|ataque|атак|malicious|malicios|guardrail|adversari|red.?team",
    re.IGNORECASE,
)


def _instructions(text: str) -> Verdict | None:
    """An order to drop earlier instructions with a demand after it, in a text that does not discuss such orders."""
    order = _ORDER.search(text)
    if order is None or not _DEMAND.search(text, order.end(), order.end() + 200) or _DISCUSSION.search(text):
        return None
    return Verdict("instructions", "it tells a reading model to ignore its instructions")


# --- personal data (reported, not filtered by default) -----------------------------------------------------------
_EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.){1,4}[A-Za-z]{2,24}\b")
_NOBODY = re.compile(
    r"@(?:[\w-]+\.)*(?:example\.\w+|localhost|[\w-]+\.(?:test|invalid|example|local))$|^no-?reply@|^git@",
    re.IGNORECASE,
)
_PHONE = re.compile(r"(?<![\w+.])\+[1-9](?:[ .()-]{0,2}\d){7,14}(?!\d)")
_CARD = re.compile(r"(?<![\w.-])[3-6]\d{3}(?:[ -]?\d){9,15}(?![\w-])")
_IBAN = re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b")


def personal(text: str) -> Verdict | None:
    """Personal data in a text, counted by kind: e-mail addresses, international phone numbers, cards, IBANs.

    Cards must pass Luhn's check, IBANs the remainder of ISO 7064; addresses under example domains are nobody's.
    """
    counts = {
        "e-mail address": sum(not _NOBODY.search(found[0]) for found in _EMAIL.finditer(text)),
        "phone number": sum(1 for _ in _PHONE.finditer(text)),
        "card number": sum(_passes_luhn(found[0]) for found in _CARD.finditer(text)),
        "IBAN": sum(_passes_iban(found[0]) for found in _IBAN.finditer(text)),
    }
    named = list(_named(counts))
    return Verdict("personal", f"it holds {', '.join(named)}") if named else None


def _named(counts: dict[str, int]) -> Iterator[str]:
    for name, count in counts.items():
        if count:
            plural = "" if count == 1 else "es" if name.endswith("s") else "s"
            yield f"{count} {name}{plural}"


def _passes_luhn(number: str) -> bool:
    digits = [int(digit) for digit in number if digit.isdigit()]
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[-2::-2]]
    return 13 <= len(digits) <= 19 and len(set(digits)) > 1 and (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


def _passes_iban(number: str) -> bool:
    """The check digits; a trailing group that is the next word, not part of the number, is tried without."""
    groups = number.split(" ")
    candidates = {"".join(groups), "".join(groups[:-1])}
    return any(15 <= len(text) <= 34 and _remainder(text) == 1 for text in candidates)


def _remainder(text: str) -> int:
    return int("".join(str(int(character, 36)) for character in text[4:] + text[:4])) % 97
