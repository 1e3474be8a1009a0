"""One plain sentence about each benchmark: by its name for the public ones, else by its type."""

from collections.abc import Mapping

NAMED: Mapping[str, str] = {
    "lambada": "The last word of a passage from a novel, which only the whole passage makes predictable.",
    "piqa": "Everyday physics: which of two ways reaches a goal.",
    "arc_easy": "School science questions with four answers.",
    "arc_challenge": "School science questions that simple methods answer wrong.",
    "copa": "The more likely cause or effect of an event, of two.",
    "openbook_qa": "Science questions that need a fact and common sense.",
    "boolq": "Yes or no questions about a passage.",
    "hellaswag": "The most likely end of a scene, of four.",
    "winogrande": "The person or thing that a pronoun refers to, in sentences made to be hard.",
    "winograd": "The person or thing that a pronoun refers to.",
    "arithmetic": "Short sums, differences and products, written out exactly.",
    "triviaqa": "Questions of general knowledge that the model answers in writing.",
    "gsm8k": "School mathematics in words that the model solves in writing.",
    "mmlu": "Exam questions of 57 subjects with four answers.",
    "gpqa": "Questions of experts in biology, physics and chemistry that a search does not answer.",
    "swag": "The most likely continuation of a description of a scene, of four.",
    "rte": "Whether a text entails a sentence.",
    "cb": "Whether a speaker is committed to a clause, its opposite, or neither.",
    "wic": "Whether a word has one meaning in two sentences.",
    "blimp": "The grammatical sentence of each pair.",
}
TYPED: Mapping[str, str] = {
    "validation": "How well the model predicts the held-out documents of this run.",
    "lambada": "The last word of a passage, which only the whole passage makes predictable.",
    "language_modelling": "How well the model predicts a text.",
    "multiple_choice": "Questions with several answers; the model chooses the one that it finds most likely.",
    "field_choice": "Questions with several answers; the model chooses the one that it finds most likely.",
    "schema": "The word that a pronoun or gap refers to; the model chooses the more likely sentence.",
    "short_answer": "Questions that the model answers in a few words of its own.",
    "written_answers": "Texts that the model writes in full, compared with right ones.",
    "word_problem": "Problems that the model solves in writing; only the number at the end counts.",
    "completion": "Answers that must be written out exactly.",
    "cbt": "The missing word of a sentence from a children's book, of ten.",
    "minimal_pairs": "The grammatical sentence of each pair.",
    "held_out_words": "The last word of a held-out passage that holds the word earlier, too.",
    "held_out_sentences": "The true next sentence of a held-out passage, of four.",
    "held_out_order": "The held-out sentence as it was written, not with two neighbouring words exchanged.",
    "copying": "Random sequences that the model repeats exactly, by their length.",
    "extraction": "Planted random texts whose second half the model writes after the first, by their copies.",
    "extrapolation": "The loss of the same tokens in windows of several lengths, also longer ones than in training.",
    "in_context": "How much better the model predicts late in a text than early in it.",
    "induction": "Attention heads that look for the earlier occurrence of the present token.",
    "lstm": "How well a small LSTM, trained on training rows, predicts the held-out documents, next to the model.",
    "ngram": "How well n-gram models of the training rows predict the held-out documents, next to the model.",
    "agreement": "The sentence whose subject and verb agree in number, of two.",
    "continuations": "Text that the model writes: the share of its sequences of four words that repeat an earlier one.",
    "suite": "Several benchmarks as one number, in which each counts the same.",
    "lm_eval": "A task of lm-evaluation-harness.",
}


def sentence(name: str, type: str) -> str:
    """Returns the sentence about the benchmark ``name``; empty for a type that this version does not have."""
    return NAMED.get(name) or TYPED.get(type, "")
