"""Makes data_prep/filters/language/language_values.json from texts of several genres.

    python -m benchmarks.data.language_values FOLDER --to FOLDER

FOLDER and the genres are those of language_genres.py; here the even half of the sentences in 75 languages of the data
folder ($HEADRACE_DATA, else ../shared/data) is one more, ``sentences``. It needs the package icu4py: words are ICU's.

    stop words         the words that most genres have: those with at least ``LOWEST_SHARE`` of the words of a genre in
                       the lower median of its genres, at least ``FEWEST`` and at most ``MOST``; then ``ADDED``.
                       Some languages have ``PARTICLES`` instead. Where syllables count, ``FEWEST_FOUND`` of them are
                       needed, because they are in other words, too
    length of words    Gopher's 3 and 10 characters times the ratio of the sentences' mean length to that of English
    letters of a word  of the languages without spaces: letters in a word of ICU

Writes language_values.json, and for each genre ``without_GENRE.json``, from the other genres, to be judged on it.
"""

import argparse
import functools
import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.data.language_genres import GENRES, icu_segments, pages_by_language
from headrace.data_prep.filters.language.by_language import VALUES, read_values
from headrace.data_prep.filters.page_statistics import ScriptStatistics
from headrace.data_prep.text.folding import plain_letters

LOWEST_SHARE, FEWEST, MOST = 0.002, 24, 40
FEWEST_FOUND = {"": 3, "vi_Latn": 6}
MOST_PAGES = 150
"""Pages of a genre that are counted."""
UNMARKED = {"Thai", "Laoo"}
"""Scripts whose lines end without a mark."""
SHORT_LINES = 0.2
"""Line breaks per word of these: what tells lists and menus."""
UNSPACED = {"Hani", "Jpan", "Thai", "Khmr", "Laoo", "Mymr"}
LATIN = dict(zip("абвгдђежзијклмнопрстћуфхцчш", "abvgdđežzijklmnoprstćufhcčš", strict=True)) | {
    "љ": "lj",
    "њ": "nj",
    "џ": "dž",
}
PARTICLES = {
    "ko_Hang": "-는 -은 -를 -을 -에서 -에게 -으로 -에는 -에도 -이다 -니다 -어요 -아요 -해요 -세요 -네요 -지요 -까지 "
    "-부터 -처럼 -보다 -지만 -면서 -어서 -아서 -해서 -하고 -하는 "
    "-했다 -었다 -았다 -였다 -한다 -된다 -있다 -없다 -들이 -들의 -것이 -것을 "
    "-잖아 -거든 -었어 -았어 -했어 -니까 -려고 -는데 그리고 그러나 수 안 더",
    "km_Khmr": "និង នៃ ជា មាន បាន ក្នុង ដែល នេះ ទៅ មិន ពី ដោយ ឱ្យ ឲ្យ របស់ នៅ ការ ត្រូវ ដើម្បី គេ នោះ ក៏ ហើយ ខ្ញុំ ទេ",
    "lo_Laoo": "ທີ່ ແລະ ໃນ ເປັນ ຂອງ ມີ ບໍ່ ໃຫ້ ໄດ້ ຈະ ວ່າ ຈາກ ກັບ ນີ້ ແຕ່ ຢູ່ ໄປ ມາ ກໍ ດ້ວຍ ໂດຍ ການ ນັ້ນ ຂ້ອຍ ເຂົາ ຄວາມ",
    "my_Mymr": "သည် နှင့် ၏ ကို မှ တွင် များ ဖြစ် ရှိ သော မ ၍ နိုင် တို့ ပါ တယ် မှာ လည်း က ခဲ့ ရန် ရ တဲ့ တွေ ဘူး",
    "zh_Hani": "的 了 是 在 和 我 你 他 她 这 這 那 也 都 就 很 不 着 著 把 被 从 從 "
    "而 但 与 與 为 為 到 吗 嗎 呢 吧 将 將 让 讓",
    "ja_Jpan": "を ます です した して する ない から まで ので のは のが には では とは という って だった である "
    "てい った れる られ よう こと けど たら れば だけ など より んだ たい",
    "th_Thai": "ที่ และ ของ เป็น ให้ ได้ โดย จาก ไม่ นี้ เพื่อ กับ ว่า แต่ แล้ว อยู่ นั้น เพราะ ต้อง ซึ่ง หรือ เมื่อ ด้วย ถ้า ฉัน เขา "
    "ความ การ กำลัง เคย จึง ยัง ทำให้ เรา มัน",
}
"""All words of these: Korean writes particles at the end of words; in scripts without spaces short words are parts of
others, and Khmer, Lao and Burmese have one genre. Written by hand, as ``ADDED``."""
ADDED = {
    "az_Latn": "də da ki amma hər nə ən var mən o biz çox daha sonra isə yox idi edir bütün",
    "bn_Beng": "আমি সে আর কিন্তু খুব আমার হয় ছিল পরে কি কী তো নেই একটা নিয়ে",
    "fi_Latn": "hän minä me oli olen mutta niin joka nyt jo vain sitten sekä mitä siitä kanssa minun olisi siinä",
    "gu_Gujr": "હું મારા નથી હતી હતો હતા પછી ખૂબ અમે મને શું હવે છું ત્યારે",
    "hu_Latn": "volt már mert még de én mint mi akkor nagyon majd csak lesz ezt",
    "hy_Armn": "ես նա մենք բայց շատ եմ էր ինչ հետո իմ էին երբ ինձ նրա",
    "ka_Geor": "ის იყო მე ძალიან მაგრამ კი რა თუ როცა ჩემი შემდეგ მერე უნდა არის ჩვენ და უფრო",
    "kk_Cyrl": "мен да та те ол емес жоқ сол қазір өте көп кейін сияқты ғана ал біз болды дейді керек еді",
    "lg_Latn": "era naye nti ate kubanga nnyo kati ono bino yange n okuva ku mu ne",
    "mn_Cyrl": "нь би бид тэр бол л шүү байна дараа маш их юм гэж болон ба биш одоо байлаа тийм хэдий",
    "mr_Deva": "मी पण मग खूप माझ्या होता होती होते आता त्याने आम्ही तू का",
    "sn_Latn": "asi ini izvi zvakare nekuti zvikuru uyu wake wangu ndiye zve se ne vake",
    "sw_Latn": "lakini sana baada mimi yeye alikuwa hiyo huo ili yangu tena sasa si",
    "ta_Taml": "நான் அந்த ஆனால் மிகவும் பிறகு என் அவர் அவள் இல்லை போது என்று கொண்டு நாம் -ில் -க்கு -ால் -ின் -ும் -ாக -ந்து -கிறது",
    "te_Telu": "నేను అది కానీ చాలా తర్వాత ఉంది అని నా మీ -లో -కు -ను -తో -ంది -ారు -డానికి",
    "tr_Latn": "de da ne ama gibi kadar sonra ki mi değil var ben o biz ise şey hiç diye olduğu",
    "vi_Latn": "thì mà tôi anh rồi nên rất nếu khi",
    "xh_Latn": "kodwa xa kakhulu apho ngoku lo yena mna njengoko wam ngoba ke emva",
    "zu_Latn": "kodwa kakhulu ngoba lapho khona manje wami kanye njengoba le lo yena mina uma",
}
"""Function words of speech and narration, for languages with few genres or whose words end in their grammar."""


def values_of(language: str, texts: Sequence[str], genres: Sequence[Mapping[str, float]], factor: float) -> Any:
    """Returns the values of ``language`` from ``texts`` and the shares of words in each genre.

    ``factor`` is the mean length of its words to that of English; 0: there are no sentences.
    """
    unspaced = language[-4:] in UNSPACED
    words = PARTICLES.get(language, "").split() or common_words(genres)
    words += [word for word in ADDED.get(language, "").split() if word not in words]
    length = {"min_characters": round(3 * factor, 2), "max_characters": round(10 * factor, 2)}
    fewest = {"min_words": FEWEST_FOUND.get(language, FEWEST_FOUND[""])} if unspaced or language in FEWEST_FOUND else {}
    rules: dict[str, Any] = {"stop_words": {"words": words} | fewest}
    rules["word_length"] = length if factor else None
    if language[-4:] in UNMARKED:
        rules |= {"line_punctuation": None, "line_breaks": {"max_per_word": SHORT_LINES}}
    return {"rules": rules} | ({"characters_per_word": round(letters_per_word(texts), 1)} if unspaced else {})


class IcuStatistics(ScriptStatistics):
    """The words of any script by ICU's dictionaries."""

    @functools.cached_property
    def words(self) -> list[str]:
        return icu_segments(self.text)


def word_shares(texts: Sequence[str]) -> dict[str, float]:
    """Returns the share of each word with letters, in lower case."""
    words = (word.lower() for text in texts for word in IcuStatistics(text).counted_words)
    counts = Counter(word for word in words if any(map(str.isalpha, word)))
    return {word: number / counts.total() for word, number in counts.items()}


def common_words(genres: Sequence[Mapping[str, float]]) -> list[str]:
    """Returns the words that most of the ``genres`` have: most frequent first, one of those with the same letters."""
    words = {word for shares in genres for word in shares}
    median = {word: sorted(shares.get(word, 0.0) for shares in genres)[(len(genres) - 1) // 2] for word in words}
    once: dict[str, str] = {}
    for word in sorted(median, key=lambda word: (-median[word], word)):
        once.setdefault(plain_letters(word), word)
    return list(once.values())[: min(max(sum(share >= LOWEST_SHARE for share in median.values()), FEWEST), MOST)]


def mean_length(texts: Sequence[str]) -> float:
    words = [word for text in texts for word in IcuStatistics(text).counted_words]
    return sum(map(len, words)) / len(words)


def letters_per_word(texts: Sequence[str]) -> float:
    letters, words = (
        sum(len(statistics(text).counted_words) for text in texts) for statistics in (ScriptStatistics, IcuStatistics)
    )
    return letters / words


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--to", type=Path, required=True, help="the folder for files of values")
    arguments = parser.parse_args()
    pages = {
        key: texts[:: max(1, len(texts) // MOST_PAGES)]
        for key, texts in pages_by_language(arguments.folder, read_values(None), half=0).items()
    }
    lengths = {language: mean_length(texts) for (language, genre), texts in pages.items() if genre == "sentences"}
    shares: dict[str, dict[str, dict[str, float]]] = defaultdict(dict)
    for (language, genre), texts in pages.items():
        shares[language][genre] = word_shares(texts)
    for without in ("", *GENRES):
        values = {}
        for language, genres in sorted(shares.items()):
            judged = [genres[genre] for genre in genres if genre != without] or list(genres.values())
            factor = lengths.get(language, 0.0) / lengths["en_Latn"]
            texts = pages.get((language, "sentences")) or pages[language, next(iter(genres))]
            values[language] = values_of(language, texts, judged, factor)
        serbian = values["sr_Cyrl"]["rules"]
        latin = ["".join(LATIN.get(letter, letter) for letter in word) for word in serbian["stop_words"]["words"]]
        values["sr_Latn"] = values["sh_Latn"] = {"rules": serbian | {"stop_words": {"words": latin}}}
        values["en_Latn"] = {"rules": {}}  # those of the filters
        rows = (f"{json.dumps(code)}: {json.dumps(row, ensure_ascii=False)}" for code, row in sorted(values.items()))
        path = arguments.to / (f"without_{without}.json" if without else VALUES.name)
        path.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
