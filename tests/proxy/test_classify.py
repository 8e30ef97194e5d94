"""The rule that says which requests carry a question of the user."""

import time
from typing import Any

import pytest

from proxy.gateway.classify import Classified, Sender, classify
from proxy.gateway.wording import CLIENT_BLOCKS

CODE = Sender(claude_code=True, session="5e55")
CHAT = Sender()
TOOL = {"name": "Read", "input_schema": {"type": "object"}}
LATER = {**TOOL, "defer_loading": True}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "x"}
REMINDER = "<system-reminder>\nBe brief.\n</system-reminder>"
TYPED = "The user sent a new message while you were working:\nWhich port?"


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": [text(b) if isinstance(b, str) else b for b in blocks]}


def body(*messages: Any, **fields: Any) -> dict[str, Any]:
    return {"model": "m", "max_tokens": 100, "tools": [TOOL], "messages": list(messages), **fields}


ANSWER = {
    "role": "assistant",
    "content": [{"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {}}],
}
SYSTEM = {"role": "system", "content": []}


def test_it_works() -> None:
    found = classify(body(user(REMINDER, REMINDER, "Which port?"), SYSTEM), CODE)

    assert found.kind == "question"
    assert found.question is not None
    assert (found.question.text, found.question.message, found.question.block) == ("Which port?", 0, 2)
    assert (found.question.session, found.question.occurrence) == ("5e55", 0)


@pytest.mark.parametrize(
    ("request_body", "sender", "kind"),
    [
        (body(user("Which port?")), Sender(claude_code=True, session="s", agent="agent-1"), "subagent"),
        (body(user("Which port?"), tools=[]), CODE, "side_call"),
        (body(user("Which port?"), tools=None), CODE, "side_call"),
        (body(user("Which port?"), tools=[LATER]), CODE, "side_call"),
        (body(user("x"), tools=[{"type": "web_search_20250305", "name": "web_search"}]), CODE, "side_call"),
        (body(user("Which port?"), max_tokens=1), CODE, "side_call"),
        (body(user("Which port?"), max_tokens=0), CHAT, "side_call"),
        (body(user("Which port?"), output_config={"format": {"type": "json_schema"}}), CODE, "side_call"),
        (body(user("Which port?"), output_config={"effort": "low"}), CODE, "question"),
        (body(user("Which port?"), tools=None), CHAT, "question"),
        (body(user("Which port?"), ANSWER, user(RESULT)), CODE, "tool_turn"),
        (body(user("Which port?"), ANSWER, user(RESULT, TYPED)), CODE, "question"),
        (body(user("Which port?"), ANSWER, user(RESULT, REMINDER)), CODE, "tool_turn"),
        (body(user("Which port?"), ANSWER, user(RESULT, "Pasted by a tool")), CODE, "tool_turn"),
        (body(user("Which port?"), {"role": "assistant", "content": "It is"}), CODE, "unknown"),
        (body(user("CRITICAL: Respond with TEXT ONLY.\n\nSum up: which port?")), CODE, "compaction"),
        (body(user(REMINDER, "[Request interrupted by user]")), CODE, "unknown"),
        (body(SYSTEM), CODE, "unknown"),
        (body(), CODE, "unknown"),
        (body(user(7)), CHAT, "unknown"),
        (body("odd"), CHAT, "unknown"),
        (body({"role": "user"}), CHAT, "unknown"),
        ({"messages": None}, CHAT, "unknown"),
        ([1, 2], CHAT, "unknown"),
        (None, CHAT, "unknown"),
    ],
)
def test_kinds(request_body: Any, sender: Sender, kind: str) -> None:
    assert classify(request_body, sender).kind == kind


@pytest.mark.parametrize("prefix", CLIENT_BLOCKS)
def test_a_block_that_the_client_wrote_is_no_question(prefix: str) -> None:
    assert classify(body(user(f"{prefix} Which port?")), CODE).kind == "unknown"


def test_words_between_reminders_are_the_question() -> None:
    found = asked(classify(body(user(f"{REMINDER}\nWhich port?\n{REMINDER}")), CODE))

    assert found.text == "Which port?"


def test_words_before_a_slash_commands_tags_are_the_question() -> None:
    command = "<command-message>explain</command-message>\n<command-name>/explain</command-name>"
    found = asked(classify(body(user(command, "Which port?")), CODE))

    assert (found.text, found.block) == ("Which port?", 1)


def test_a_message_typed_behind_tool_results_is_unwrapped() -> None:
    found = asked(classify(body(user("Hello there"), ANSWER, user(RESULT, TYPED)), CODE))

    assert (found.text, found.message, found.block) == ("Which port?", 2, 1)


def test_nothing_is_put_before_a_tool_result() -> None:
    assert classify(body(user(TYPED, RESULT)), CODE).kind == "tool_turn"


def test_a_sub_agent_counts_when_the_key_says_so() -> None:
    sender = Sender(claude_code=True, session="5e55", agent="agent-1")
    found = asked(classify(body(user("Which port?")), sender, subagents=True))

    assert found.session == "5e55/agent-1"


def test_a_string_and_a_block_are_the_same_question() -> None:
    listed = asked(classify(body(user("Which port?")), CODE))
    plain = asked(classify(body({"role": "user", "content": "Which port?"}), CODE))

    assert (plain.digest, plain.block) == (listed.digest, None)


def test_earlier_questions_come_with_the_request() -> None:
    found = classify(body(user("First?"), ANSWER, user(RESULT), ANSWER, user("Second?")), CODE)

    assert [q.text for q in found.earlier] == ["First?"]
    assert asked(found).text == "Second?"


def test_equal_questions_are_told_apart_by_their_number() -> None:
    found = classify(body(user("Which port?"), ANSWER, user("Which port?")), CODE)

    assert [q.occurrence for q in (*found.earlier, asked(found))] == [0, 1]


def test_without_a_session_the_messages_before_name_the_conversation() -> None:
    marked = {**text("Hello"), "cache_control": {"type": "ephemeral"}}
    one = asked(classify(body({"role": "user", "content": [marked]}, ANSWER, user("Which port?")), CHAT))
    same = asked(classify(body({"role": "user", "content": "Hello"}, ANSWER, user("Which port?")), CHAT))
    other = asked(classify(body(user("Good day"), ANSWER, user("Which port?")), CHAT))

    assert one.session == same.session != other.session


def test_a_lone_surrogate_does_no_harm() -> None:
    found = classify(body(user("half \ud83d"), ANSWER, user("Which port? \ud83d")), CHAT)

    assert found.kind == "question"


@pytest.mark.parametrize("word", ["Yes.", "continue", "Продолжай!", "¡Sí, por favor!", "👍"])
def test_a_word_that_only_goes_on_is_looked_up_as_the_question_before(word: str) -> None:
    found = classify(body(user("Which port?"), ANSWER, user(word)), CODE)

    assert found.kind == "question"
    assert found.search_text == "Which port?"


def test_a_word_that_only_goes_on_has_nothing_to_look_up_by_itself() -> None:
    assert classify(body(user("Go on")), CODE).search_text == ""


def test_a_short_question_of_its_own_is_looked_up() -> None:
    assert classify(body(user("Which port?"), ANSWER, user("E-417?")), CODE).search_text == "E-417?"


def asked(found: Classified) -> Any:
    assert found.question is not None
    return found.question


@pytest.mark.parametrize(
    "words",
    [
        "<system-reminder>" * 8_000,
        f"The user sent a new message while you were working: a{' ' * 30_000}b",
    ],
)
def test_hostile_text_costs_no_more_than_other_text(words: str) -> None:
    # In seconds it would grow with the square of the length, and megabytes may come.
    began = time.process_time()
    classify(body(user(words)), CODE)
    assert time.process_time() - began < 0.5


def test_a_reminder_that_never_ends_is_the_clients_all_the_same() -> None:
    assert classify(body(user("<system-reminder>Which port?")), CODE).kind == "unknown"


def test_a_reminder_that_never_ends_stays_behind_the_words() -> None:
    found = classify(body(user(f"Which{REMINDER} port? <system-reminder>")), CODE).question
    assert found is not None
    assert found.text == "Which port? <system-reminder>"
