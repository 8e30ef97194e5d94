"""What clients write into user messages beside the user's own words.

Clients change these texts with their versions, so they are data: a new one is a line here and a line in
`tests/proxy/test_classify.py`. All were seen on the wire of Claude Code or stand in its documentation.
"""

from typing import Final

# A text block that begins with one of these was written by the client, not by the user.
CLIENT_BLOCKS: Final = (
    "<system-reminder>",
    "<local-command-caveat>",
    "<local-command-stdout>",
    "<local-command-stderr>",
    "<command-name>",
    "<command-message>",
    "<command-args>",
    "<bash-input>",
    "<bash-stdout>",
    "<bash-stderr>",
    "<task-notification>",
    "<ide_",
    "[Image: source:",
    "[Request interrupted",
    "[SYSTEM NOTIFICATION",
    "This session is being continued from a previous conversation",
)

# A user text that begins with one of these asks for a summary of the conversation, to go on with a shorter
# one.
COMPACTION: Final = (
    "CRITICAL: Respond with TEXT ONLY",
    "Your task is to create a detailed summary of the conversation",
)

# What clients tell the model between these stands in blocks of its own, or among the user's words.
REMINDER_BEGINS: Final = "<system-reminder>"
REMINDER_ENDS: Final = "</system-reminder>"

# What the user typed while tools ran arrives behind the tool results, after this, all of it in a reminder or not.
WHILE_WORKING: Final = "The user sent a new message while you were working:"

# Answers that only push the conversation on: there is nothing to look up in them. Compared without case and
# punctuation; phrases are divided by commas.
_GO_ON = """
yes, y, yeah, yep, yes please, no, nope, ok, okay, k, sure, please, go, go on, go ahead, continue, carry on,
proceed, next, more, do it, retry, try again, again, thanks, thank you, great, good, perfect, done, stop, hi, hello,
sí, si, sí por favor, vale, claro, sigue, continúa, continua, adelante, hazlo, otra vez, gracias, perfecto, hola,
да, ага, нет, ок, окей, хорошо, ладно, продолжай, дальше, давай, ещё, еще, спасибо, привет, сделай
"""
GO_ON: Final = frozenset(phrase.strip() for phrase in _GO_ON.split(","))
