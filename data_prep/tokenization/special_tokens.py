"""Special tokens: their names, their order in a vocabulary, and their roles.

    preset     before the other tokens            after them
    gpt        <|endoftext|>                                                        Radford et al. 2019
    bert       [PAD] [UNK] [CLS] [SEP] [MASK]                                       Devlin et al. 2019
    roberta    <s> <pad> </s> <unk>               <mask>                            Liu et al. 2019; BART
    t5         <pad> </s> <unk>                   <extra_id_99> … <extra_id_0>      Raffel et al. 2020

Families spell the token of a role differently: ``[MASK]`` and ``<mask>`` are one role. An objective that needs the one
uses the other where the tokenizer has that one.
"""

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import tokenizers
from tokenizers.processors import TemplateProcessing

from headrace.pipeline.core.json_files import read_json

END_OF_TEXT = "<|endoftext|>"
"""The token between two documents, under its GPT-2 name."""

TOKENIZER_CONFIG = "tokenizer_config.json"
END_FIELD = "end_of_text"
"""The field of tokenizer_config.json, next to a tokenizer.json, that names the token that ends a document."""

DOCUMENT_ENDS = (END_OF_TEXT, "</s>", "<eos>", "<|end_of_text|>", "[SEP]")
"""The tokens that can end a document. A tokenizer that has several of them uses the first."""

SPELLINGS = (("[PAD]", "<pad>"), ("[UNK]", "<unk>"), ("[CLS]", "<s>"), ("[SEP]", "</s>"), ("[MASK]", "<mask>"))
"""The names that families give to the same token: BERT's, and that of RoBERTa, T5 and LLaMA."""

ROLES = {
    "bos_token": ("<s>", "<bos>", "<|begin_of_text|>"),
    "eos_token": ("</s>", "<eos>", "<|end_of_text|>"),
    "unk_token": ("[UNK]", "<unk>"),
    "sep_token": ("[SEP]",),
    "pad_token": ("[PAD]", "<pad>"),
    "cls_token": ("[CLS]",),
    "mask_token": ("[MASK]", "<mask>"),
}
"""Role in tokenizer_config.json → its tokens. A family decides the roles of ``<|endoftext|>``."""

SENTINELS = 100
"""T5's number of tokens that stand for a missing span."""


def sentinels(number: int = SENTINELS) -> tuple[str, ...]:
    """Returns T5's sentinels in the order of their ids: the first span has the last id."""
    return tuple(f"<extra_id_{index}>" for index in reversed(range(number)))


@dataclasses.dataclass(frozen=True)
class SpecialTokens:
    """The special tokens of a vocabulary, in the order of their ids."""

    first: tuple[str, ...]
    """The tokens before all others."""
    last: tuple[str, ...] = ()
    """The tokens after all others."""
    single: str | None = None
    """The form of a text for a model that reads whole texts, as of tokenizers' TemplateProcessing."""
    pair: str | None = None
    """The form of a pair of texts."""

    def including(self, needed: Iterable[str]) -> "SpecialTokens":
        """Returns these tokens, then those ``needed`` ones that they lack under any spelling, all before the others."""
        tokens = list(self.first)
        for token in needed:
            if spelling(token, {*tokens, *self.last}) is None:
                tokens.append(token)
        return dataclasses.replace(self, first=tuple(tokens))

    def added_to(self, tokenizer: tokenizers.Tokenizer) -> tokenizers.Tokenizer:
        """Marks the first tokens as special, adds the last ones, and sets the form of a text."""
        tokenizer.add_special_tokens([*self.first, *self.last])
        if self.single is not None:
            named = {part.partition(":")[0] for part in f"{self.single} {self.pair}".split()} & {*self.first}
            ids = [(token, tokenizer.token_to_id(token)) for token in sorted(named)]
            tokenizer.post_processor = TemplateProcessing(single=self.single, pair=self.pair, special_tokens=ids)
        return tokenizer


PresetName = Literal["gpt", "bert", "roberta", "t5"]
PRESETS: Mapping[PresetName, SpecialTokens] = {
    "gpt": SpecialTokens((END_OF_TEXT,)),
    "bert": SpecialTokens(
        ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
    ),
    "roberta": SpecialTokens(
        ("<s>", "<pad>", "</s>", "<unk>"), ("<mask>",), single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>"
    ),
    "t5": SpecialTokens(("<pad>", "</s>", "<unk>"), sentinels(), single="$A </s>", pair="$A </s> $B </s>"),
}
"""The special tokens of each family."""


def spelling(token: str, present: Collection[str]) -> str | None:
    """Returns ``token``, or another spelling of its role, as it is ``present`` in a vocabulary; None if it is not."""
    same = next((names for names in SPELLINGS if token in names), ())
    return next((name for name in (token, *same) if name in present), None)


def document_end(present: Collection[str]) -> str | None:
    """Returns the token that ends a document, of those that are ``present``."""
    return next((token for token in DOCUMENT_ENDS if token in present), None)


def named_end(tokenizer_file: Path) -> str | None:
    """Returns the token that ends a document by the setting ``tokenizer.end_of_text``; None: by its name."""
    return _token(_config(tokenizer_file).get(END_FIELD))


def end_of_documents(tokenizer_file: Path, present: Collection[str]) -> str | None:
    """Returns the token that ends a document, of those that are ``present`` in ``tokenizer_file``.

    It is that of the setting, else the one with the name of one, else ``eos_token`` of the tokenizer_config.json next
    to the file. None: it has none.
    """
    end = named_end(tokenizer_file) or document_end(present) or _token(_config(tokenizer_file).get("eos_token"))
    return end if end in present else None


def _config(tokenizer_file: Path) -> dict[str, Any]:
    file = tokenizer_file.parent / TOKENIZER_CONFIG
    content = read_json(file) if file.is_file() else {}
    return content if isinstance(content, dict) else {}


def _token(value: object) -> str | None:
    """Returns the text of a token in tokenizer_config.json: a text, or an object that holds it."""
    text = value.get("content") if isinstance(value, dict) else value
    return text if isinstance(text, str) else None


def decoder_start(present: Collection[str]) -> str | None:
    """Returns the token that a decoder with an encoder begins with: padding as in T5, else the end of a document."""
    return spelling("<pad>", present) or document_end(present)


def unknown_of(special: Sequence[str]) -> str:
    """Returns the unknown token among ``special`` ones, which must have one."""
    return next(token for token in special if token in ROLES["unk_token"])


def known_tokens(present: Collection[str]) -> list[str]:
    """Returns the tokens ``present`` in a vocabulary without ``<|endoftext|>`` that are special by their names.

    In a vocabulary with ``<|endoftext|>`` it alone is special by its name: there, ``<s>`` may be text.
    """
    if END_OF_TEXT in present:
        return [END_OF_TEXT]
    named = {token for names in (DOCUMENT_ENDS, *ROLES.values(), sentinels()) for token in names}
    return [token for token in present if token in named]


def roles(special: Sequence[str]) -> dict[str, str]:
    """Returns role → token of a tokenizer's ``special`` tokens, but not the roles of ``<|endoftext|>``.

    As in RoBERTa and BART, ``<s>`` and ``</s>`` also begin and separate texts where there is ``<mask>``.
    """
    token_of_role = {role: next((token for token in names if token in special), None) for role, names in ROLES.items()}
    if END_OF_TEXT in special:
        token_of_role |= {"bos_token": None, "eos_token": None}
    elif "<mask>" in special:
        token_of_role |= {"cls_token": token_of_role["cls_token"] or token_of_role["bos_token"]}
        token_of_role |= {"sep_token": token_of_role["sep_token"] or token_of_role["eos_token"]}
    return {role: token for role, token in token_of_role.items() if token is not None}
