"""Which requests carry a question of the user, and where it stands.

Pure: takes a parsed body and two facts from the headers, knows no database and no HTTP. A shape it doesn't
know is `unknown`, which means: pass it through.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from proxy.gateway.wording import (
    CLIENT_BLOCKS,
    COMPACTION,
    GO_ON,
    REMINDER_BEGINS,
    REMINDER_ENDS,
    WHILE_WORKING,
)

Kind = Literal["question", "tool_turn", "compaction", "side_call", "subagent", "unknown"]
Json = dict[str, Any]

_EDGE_OF_WORDS = re.compile(r"[\W_]+")


@dataclass(frozen=True, slots=True)
class Question:
    """One question of the user inside a conversation.

    `message` and `block` say where it stands in the body (`block` is None where the content is a plain
    string). `digest` is the hash of its text, `occurrence` counts equal questions before it in this
    conversation, `session` names the conversation: the client's session id, else the hash of the normalised
    messages before the question.
    """

    text: str
    message: int
    block: int | None
    digest: str
    occurrence: int
    session: str


@dataclass(frozen=True, slots=True)
class Classified:
    """What a request is.

    `question` is the one asked in the last message (kind "question" only); `earlier` are those before it,
    in order: for a tool turn the last of them is the one being worked on.
    """

    kind: Kind
    question: Question | None = None
    earlier: tuple[Question, ...] = ()

    @property
    def search_text(self) -> str:
        """What to look up: the question, or the last real one before it where it only says "go on"; ""
        for nothing.
        """
        if self.question is None:
            return ""
        asked = (*self.earlier, self.question)
        return next((q.text for q in reversed(asked) if not _only_goes_on(q.text)), "")


@dataclass(frozen=True, slots=True)
class Sender:
    """What the headers say: whether the client is Claude Code, its session, and its sub-agent's id (""
    for none).
    """

    claude_code: bool = False
    session: str = ""
    agent: str = ""


def classify(body: Any, sender: Sender, *, subagents: bool = False) -> Classified:
    """Say what a parsed request body is. `subagents` lets requests of sub-agents count like the user's
    own.
    """
    if sender.agent and not subagents:
        return Classified("subagent")
    messages = _messages(body)
    if messages is None:
        return Classified("unknown")
    if _is_side_call(body, sender):
        return Classified("side_call")
    last = next((i for i in reversed(range(len(messages))) if messages[i]["role"] != "system"), None)
    if last is None or messages[last]["role"] != "user":
        return Classified("unknown")
    found = tuple(_questions(messages, sender))
    if _asks_for_summary(messages[last]):
        return Classified("compaction", earlier=found)
    if found and found[-1].message == last:
        return Classified("question", found[-1], found[:-1])
    if _has_tool_result(messages[last]):
        return Classified("tool_turn", earlier=found)
    return Classified("unknown", earlier=found)


def _messages(body: Any) -> list[Json] | None:
    """Return the messages when every one has a known shape."""
    messages = body.get("messages") if isinstance(body, dict) else None
    if not isinstance(messages, list) or not messages:
        return None
    return messages if all(_is_known(message) for message in messages) else None


def _is_known(message: Any) -> bool:
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        return False
    content = message.get("content")
    if isinstance(content, list):
        return all(isinstance(block, dict) for block in content)
    return isinstance(content, str)


def _is_side_call(body: Json, sender: Sender) -> bool:
    """Titles, probes, web searches and the like: asked by the client for itself."""
    limit, output = body.get("max_tokens"), body.get("output_config")
    if isinstance(limit, int | float) and limit <= 1:
        return True
    if isinstance(output, dict) and output.get("format") is not None:
        return True
    return sender.claude_code and not any(_is_client_tool(tool) for tool in body.get("tools") or ())


def _is_client_tool(tool: Any) -> bool:
    return isinstance(tool, dict) and "input_schema" in tool and not tool.get("defer_loading")


def blocks_of(message: Json) -> list[Json]:
    """Return a message's content as a list of blocks, however it was written."""
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _texts(message: Json) -> Iterator[tuple[int, str]]:
    for i, block in enumerate(blocks_of(message)):
        if block.get("type") == "text" and isinstance(block.get("text"), str):
            yield i, block["text"]


def _has_tool_result(message: Json) -> bool:
    return any(block.get("type") == "tool_result" for block in blocks_of(message))


def _asks_for_summary(message: Json) -> bool:
    return any(text.lstrip().startswith(COMPACTION) for _, text in _texts(message))


def _questions(messages: Sequence[Json], sender: Sender) -> Iterator[Question]:
    """Yield every user question of the conversation, in order."""
    session = f"{sender.session}/{sender.agent}" if sender.agent else sender.session
    seen: Counter[str] = Counter()
    before = hashlib.sha256()
    for index, message in enumerate(messages):
        if found := _question_in(message):
            block, text = found
            digest = _digest(text.encode("utf-8", "surrogatepass"))
            yield Question(text, index, block, digest, seen[digest], session or before.hexdigest())
            seen[digest] += 1
        if not session:
            before.update(_normalised(message))


def _question_in(message: Json) -> tuple[int | None, str] | None:
    """Return (block index or None for a string, text) of the user's own words in a message, or None."""
    if message["role"] != "user" or _asks_for_summary(message):
        return None
    last_result = max((i for i, b in enumerate(blocks_of(message)) if b.get("type") == "tool_result"), default=-1)
    own = [(i, words) for i, text in _texts(message) if (words := _own_words(text, behind_tools=last_result >= 0))]
    if not own or own[-1][0] < last_result:  # our block may never come before a tool result
        return None
    block, text = own[-1]
    return (None if isinstance(message["content"], str) else block), text


def _own_words(text: str, *, behind_tools: bool) -> str:
    """Return what the user wrote in a text block, "" when the client wrote it."""
    typed = _typed_while_working(text)
    if typed is not None:
        return _without_reminders(typed).strip()
    if behind_tools:
        return ""
    # Reminders around the words are cut out first: what is left may still be the user's question.
    rest = _without_reminders(text).strip()
    return "" if rest.startswith(CLIENT_BLOCKS) else rest


# These two read megabytes of anybody's text in the event loop: no regular expression here, one that backtracks
# would stop every request of this process.
def _typed_while_working(text: str) -> str | None:
    """Return what the user typed while tools ran, None for any other text."""
    rest = text.lstrip().removeprefix(REMINDER_BEGINS).lstrip()
    if not rest.startswith(WHILE_WORKING):
        return None
    return rest.removeprefix(WHILE_WORKING).strip().removesuffix(REMINDER_ENDS).strip()


def _without_reminders(text: str) -> str:
    """Return a text without the reminders in it; one that never ends is left."""
    kept, at = [], 0
    while (begin := text.find(REMINDER_BEGINS, at)) >= 0:
        end = text.find(REMINDER_ENDS, begin)
        if end < 0:
            break
        kept.append(text[at:begin])
        at = end + len(REMINDER_ENDS)
    return "".join([*kept, text[at:]])


def _normalised(message: Json) -> bytes:
    """Return a message in one form, whether its content is a string or a list and wherever the cache
    marker stands.
    """
    blocks = [{k: v for k, v in block.items() if k != "cache_control"} for block in blocks_of(message)]
    value = [message["role"], blocks]
    try:
        return orjson.dumps(value)
    except TypeError:  # lone surrogates
        return json.dumps(value).encode()


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _only_goes_on(text: str) -> bool:
    if len(text) > 40:
        return False
    words = _EDGE_OF_WORDS.sub(" ", text.lower()).strip()
    return not words or words in GO_ON
