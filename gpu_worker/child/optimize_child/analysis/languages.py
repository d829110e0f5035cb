"""A guess at the language a row begins in: by its script, and for the Latin script by common words.

It is told on the dataset's page as something to look at; nothing is decided by it. Deterministic, and wrong at times
on a few words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

UNKNOWN = "und"
WORDS_READ = 24
SIGNS_READ = 240
LEAST_HITS = 2

# The most frequent short words of each language; a word of several languages counts for each. Words of one letter
# are common to too many.
COMMON = {
    "en": "the and is are was you your my it to of in for with on that this not have can please what how when do we",
    "de": "der die das und ist nicht ich sie es ein eine mit auf für zu von den dem wie was kann mein wir haben bitte",
    "fr": "le la les des et est une un je vous pour dans que pas mon ma avec sur au du nous avez comment merci c'est",
    "es": "el la los las de que es un una por para con no mi en se del al como pero gracias puedo está tengo",
    "pt": "os as de que um uma por para com não meu minha em se do da como mas obrigado posso está tenho você",
    "it": "il lo la gli le di che un una per con non mio mia in si del della come ma grazie posso sono ho",
    "nl": "de het een en is niet ik je mijn van voor met op dat die hoe wat kan zijn heb naar wij maar ook",
    "sv": "och att det är en ett jag inte på som för med har min hur vad kan till av men om vi ni",
    "da": "og at det er en et jeg ikke på som for med har min hvordan hvad kan til af men om vi",
    "nb": "og det er en et jeg ikke på som for med har min hvordan hva kan til av men om vi",
    "fi": "ja on ei en se että minä minun mutta kun miten mitä voi olen ovat tai jos nyt myös",
    "pl": "na się nie jest to do że mam moje moja jak co czy dla ale po od proszę",
    "cs": "na se je že to do ale jak co mám moje prosím pro jsem nebo když",
    "ro": "și în nu este de la un cu pe că pentru meu mea cum ce sunt am mai din",
    "hu": "az és hogy nem is egy van de meg ez azt ha csak már kell mit én vagy",
    "tr": "ve bir bu için ile ne çok mi ben benim nasıl ama daha var yok gibi olarak değil",
    "id": "yang dan di ini itu saya tidak dengan untuk ada dari apa bagaimana bisa anda ke akan sudah",
    "vi": "và là của tôi không có được một cho này với như thế nào bạn đã các những để",
}
SCRIPTS = (
    ("Ͱ", "Ͽ", "el"), ("Ѐ", "ӿ", "ru"), ("֐", "׿", "he"), ("؀", "ۿ", "ar"), ("ऀ", "ॿ", "hi"), ("ঀ", "৿", "bn"),
    ("஀", "௿", "ta"), ("ఀ", "౿", "te"), ("฀", "๿", "th"), ("Ⴀ", "ჿ", "ka"), ("぀", "ヿ", "ja"), ("一", "鿿", "zh"),
    ("가", "힣", "ko"),
)  # fmt: skip
# Signs that only one of the languages of a script writes.
TELLING = (("іїєґ", "ru", "uk"), ("پچژگ", "ar", "fa"), ("ٹڈڑے", "ar", "ur"))

_AROUND_WORDS = b".,;:!?\"'()"
_LANGUAGES: dict[bytes, list[str]] = {}
for _language, _common in COMMON.items():
    for _word in _common.encode().split():
        _LANGUAGES.setdefault(_word, []).append(_language)


def language_of(text: str, words: Sequence[bytes]) -> str:
    """The code of the language a text seems to be in, `und` where nothing tells. `words` are its words, lowered."""
    if not text.isascii():
        script = _by_script(text[:SIGNS_READ].lower())
        if script:
            return script
    hits: dict[str, int] = {}
    for word in words[:WORDS_READ]:
        for language in _LANGUAGES.get(word.strip(_AROUND_WORDS), ()):
            hits[language] = hits.get(language, 0) + 1
    if not hits:
        return UNKNOWN
    most = max(hits.values())
    # Equal counts go to the language named first above.
    return next(code for code in COMMON if hits.get(code) == most) if most >= LEAST_HITS else UNKNOWN


def _by_script(text: str) -> str | None:
    """The language of the script that most letters are in; None for the Latin one."""
    found = Counter(_script(sign) for sign in text if sign.isalpha())
    if not found:
        return None
    # Japanese writes with Chinese characters too: some kana tell it.
    if found["ja"] and found["ja"] + found["zh"] > found[None]:
        return "ja"
    language = max(found, key=lambda code: (found[code], code or ""))
    for signs, of, told in TELLING:
        if language == of and any(sign in text for sign in signs):
            return told
    return language


def _script(sign: str) -> str | None:
    if sign < SCRIPTS[0][0]:
        return None
    return next((code for first, last, code in SCRIPTS if first <= sign <= last), None)
