"""Is the built model the same model? Sentences of our own, in the languages and kinds of text we meet."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from knowledge.embedding.built import BuildFailed, Parity

LEAST_MEAN_COSINE = 0.99
"""A built model whose mean cosine to the reference is lower is refused. Int8: e5 .996, MiniLM .993."""

CODE = "code"

SENTENCES: dict[str, tuple[str, ...]] = {
    "en": (
        "The kettle switches itself off once the water has boiled.",
        "How do I rotate an access key without interrupting running clients?",
        "Invoices are sent on the first working day of each month, in the currency of the contract.",
        "A lighthouse keeper logged the weather every four hours for thirty-one years.",
        "Set the timeout to ninety seconds when the network between both sites is slow.",
        "What is the difference between a session token and a refresh token?",
        "Migrations run before the new version starts, so an old process may still be reading the table.",
    ),
    "es": (
        "La copia de seguridad se guarda cifrada y se comprueba cada domingo por la noche.",
        "¿Cómo puedo cambiar el idioma de la aplicación en mi teléfono?",
        "El tren de las ocho sale hoy de la vía cuatro con diez minutos de retraso.",
        "Para devolver un pedido, imprima la etiqueta y déjela visible sobre la caja.",
        "¿Qué ocurre si dos personas editan la misma página a la vez?",
    ),
    "ru": (
        "Резервная копия хранится в зашифрованном виде и проверяется раз в неделю.",
        "Как сбросить пароль, если у меня больше нет доступа к почте?",
        "Счёт выставляется в первый рабочий день месяца, оплатить его можно картой.",
        "Старый мост закрыли на ремонт, и автобусы теперь ходят через соседний посёлок.",
        "Что делать, если программа не видит сканер?",
    ),
    CODE: (
        "def median(values: list[float]) -> float:\n    return sorted(values)[len(values) // 2]",
        "SELECT city, count(*) FROM visits WHERE seen_at > now() - interval '7 days' GROUP BY city;",
        "export const retry = async (job, times = 3) => { for (let i = 0; i < times; i++) await job(i); };",
        "server:\n  listen: 127.0.0.1:8080\n  workers: 4\n  log_level: warning",
        "impl Display for Coordinate { fn fmt(&self, f: &mut Formatter) -> Result { write!(f, '{}', self.x) } }",
        "TypeError: cannot read properties of undefined (reading 'length') at parseHeader (reader.js:88)",
        "## Installing\n\n1. Unpack the archive.\n2. Run the set-up script.\n3. Open the page it prints.",
    ),
}


def sentences_for(languages: frozenset[str] | None) -> tuple[str, ...]:
    """Our sentences in the languages a model knows (None: all), and the pieces of code."""
    kept = [kind for kind in SENTENCES if languages is None or kind == CODE or kind in languages]
    return tuple(text for kind in kept for text in SENTENCES[kind])


class ParityMissed(BuildFailed):
    """The built model's vectors differ too much from the reference's."""


def parity(reference: NDArray[np.float32], built: NDArray[np.float32]) -> Parity:
    """Compare row by row (unit vectors). Raises ParityMissed when the mean cosine is below the floor."""
    cosines = (reference * built).sum(axis=1)
    found = Parity(round(float(cosines.mean()), 5), round(float(cosines.min()), 5), len(cosines))
    if not found.mean >= LEAST_MEAN_COSINE:
        raise ParityMissed(f"mean cosine to the reference is {found.mean}, at least {LEAST_MEAN_COSINE} is needed")
    return found


def background_cosine(vectors: NDArray[np.float32]) -> float:
    """Mean cosine of unrelated texts: between all pairs of different sentences (unit vectors)."""
    count = len(vectors)
    return float(((vectors @ vectors.T).sum() - count) / (count * (count - 1)))
