"""Codes and English names of languages, to check the codes of a setting against those that an identifier can answer.

english, eng, EN, en-US ──> English ──> en (langdetect, lid.176), eng_Latn (a model that distinguishes scripts)

A row of ``LANGUAGES`` has the codes of a language, then its names: the ISO 639-1 code if there is one, the ISO 639-3
code, then codes that are used for it or for its main variety (ISO 639-2/B, members of a macrolanguage, Wikipedia's).
"""

import difflib
import functools
from collections.abc import Collection, Iterable, Mapping

from headrace.pipeline.core.errors import ConfigError, suggestion

CODE_CHARACTERS = 3
"""Longer texts are names."""
LANGUAGES = """
aa aar: Afar
ab abk: Abkhazian
af afr: Afrikaans
ak aka twi tw: Akan, Twi
als gsw: Alemannic, Swiss German
am amh: Amharic
an arg: Aragonese
ar ara arb: Arabic
arz: Egyptian Arabic
as asm: Assamese
ast: Asturian
av ava: Avaric, Avar
ay aym ayr: Aymara
az aze azj: Azerbaijani
azb: South Azerbaijani
ba bak: Bashkir
bar: Bavarian
bcl: Central Bikol
be bel: Belarusian
bg bul: Bulgarian
bh bih bho: Bihari, Bhojpuri
bm bam: Bambara
bn ben: Bengali, Bangla
bo bod tib: Tibetan
bpy: Bishnupriya
br bre: Breton
bs bos: Bosnian
bxr: Russia Buriat, Buryat
ca cat: Catalan, Valencian
cbk: Chavacano
ce che: Chechen
ceb: Cebuano
ckb: Central Kurdish, Sorani
co cos: Corsican
cs ces cze cz: Czech
cv chv: Chuvash
cy cym wel: Welsh
da dan dk: Danish
de deu ger: German
diq zza: Dimli, Zazaki
dsb: Lower Sorbian
dty: Dotyali
dv div: Dhivehi, Maldivian
dz dzo: Dzongkha
ee ewe: Ewe
el ell gre gr: Greek, Modern Greek
eml egl: Emilian, Emiliano-Romagnolo
en eng: English
eo epo: Esperanto
es spa: Spanish, Castilian
et est ekk: Estonian
eu eus baq: Basque
fa fas per pes: Persian, Farsi
ff ful: Fulah
fi fin: Finnish
fo fao: Faroese
fr fra fre: French
frr: Northern Frisian
fy fry: Western Frisian, Frisian
ga gle: Irish
gd gla: Scottish Gaelic
gl glg: Galician
gn grn: Guarani
gom: Goan Konkani
gu guj: Gujarati
gv glv: Manx
ha hau: Hausa
he heb iw: Hebrew
hi hin: Hindi
hif: Fiji Hindi
hr hrv scr: Croatian
hsb: Upper Sorbian
ht hat: Haitian, Haitian Creole
hu hun: Hungarian
hy hye arm: Armenian
ia ina: Interlingua
id ind in: Indonesian
ie ile: Interlingue, Occidental
ig ibo: Igbo
ilo: Iloko, Ilocano
io ido: Ido
is isl ice: Icelandic
it ita: Italian
ja jpn jp: Japanese
jbo: Lojban
jv jav jw: Javanese
ka kat geo: Georgian
kab: Kabyle
kg kon: Kongo
ki kik: Kikuyu
kk kaz: Kazakh
kl kal: Kalaallisut, Greenlandic
km khm: Khmer, Central Khmer
kn kan: Kannada
ko kor: Korean
kr kau: Kanuri
krc: Karachay-Balkar
ks kas: Kashmiri
ku kur kmr: Kurdish, Kurmanji
kv kom kpv: Komi
kw cor: Cornish
ky kir: Kirghiz, Kyrgyz
la lat: Latin
lb ltz: Luxembourgish
lez: Lezghian
lg lug: Ganda, Luganda
li lim: Limburgan, Limburgish
lmo: Lombard
ln lin: Lingala
lo lao: Lao
lrc: Northern Luri
lt lit: Lithuanian
lv lav lvs: Latvian
mai: Maithili
mg mlg plt: Malagasy
mhr chm: Eastern Mari, Mari
mi mri mao: Maori
min: Minangkabau
mk mkd mac: Macedonian
ml mal: Malayalam
mn mon khk: Mongolian
mr mar: Marathi
mrj: Western Mari
ms msa may zsm: Malay
mt mlt: Maltese
mwl: Mirandese
my mya bur: Burmese
myv: Erzya
mzn: Mazanderani
nah: Nahuatl
nap: Neapolitan
nds: Low German, Low Saxon
ne nep npi: Nepali
new: Newari
nl nld dut: Dutch, Flemish
nn nno: Norwegian Nynorsk, Nynorsk
no nor nob nb: Norwegian, Bokmål
nv nav: Navajo
ny nya: Nyanja, Chichewa
oc oci: Occitan
om orm: Oromo
or ori ory: Oriya, Odia
os oss: Ossetian
pa pan: Punjabi, Panjabi
pam: Pampanga, Kapampangan
pfl: Pfaelzisch, Palatine German
pl pol: Polish
pms: Piemontese, Piedmontese
pnb: Western Punjabi
ps pus pbt: Pashto, Pushto
pt por: Portuguese
qu que quy: Quechua
rm roh: Romansh
rn run: Rundi
ro ron rum mo: Romanian, Moldavian
ru rus: Russian
rue: Rusyn
rw kin: Kinyarwanda
sa san: Sanskrit
sah: Yakut, Sakha
sc srd: Sardinian
scn: Sicilian
sco: Scots
sd snd: Sindhi
se sme: Northern Sami
sg sag: Sango
sh hbs: Serbo-Croatian
si sin: Sinhala
sk slk slo: Slovak
sl slv: Slovenian, Slovene
sm smo: Samoan
sn sna: Shona
so som: Somali
sq sqi alb: Albanian
sr srp scc: Serbian
ss ssw: Swati
st sot: Southern Sotho
su sun: Sundanese
sv swe: Swedish
sw swa swh: Swahili
ta tam: Tamil
te tel: Telugu
tg tgk: Tajik
th tha: Thai
ti tir: Tigrinya
tk tuk: Turkmen
tl tgl fil: Tagalog, Filipino
tlh: Klingon
tn tsn: Tswana
to ton: Tonga
tr tur: Turkish
ts tso: Tsonga
tt tat: Tatar
tyv: Tuvinian, Tuvan
ug uig: Uighur, Uyghur
uk ukr ua: Ukrainian
ur urd: Urdu
uz uzb uzn: Uzbek
ve ven: Venda
vec: Venetian
vep: Veps
vi vie vn: Vietnamese
vls: Vlaams, West Flemish
vo vol: Volapük
wa wln: Walloon
war: Waray
wo wol: Wolof
wuu: Wu Chinese, Wu
xal: Kalmyk
xh xho: Xhosa
xmf: Mingrelian
yi yid ji ydd: Yiddish
yo yor: Yoruba
yue: Cantonese, Yue Chinese
za zha: Zhuang
zh zho chi cmn cn: Chinese, Mandarin
zu zul: Zulu
"""


@functools.cache
def _first_codes() -> Mapping[str, str]:
    """Returns the first code of its row for each code and each name, in lower case."""
    codes_of_spellings: dict[str, str] = {}
    for row in LANGUAGES.strip().lower().splitlines():
        codes, _, names = row.partition(":")
        first, *others = codes.split()
        codes_of_spellings |= dict.fromkeys([first, *others, *map(str.strip, names.split(","))], first)
    return codes_of_spellings


def first_code(code: str) -> str:
    """Returns the language of ``code`` by its ISO 639-1 code, if there is one: ``de`` for ``deu_Latn``."""
    return _first_codes().get(_parts(code)[0], _parts(code)[0])


def meant_codes(typed: str, known: Collection[str]) -> list[str]:
    """Returns the codes among ``known`` that stand for the language that ``typed`` names, sorted.

    ``typed`` is a name, a code, or a code with a script or country, in any case (``english``, ``eng``, ``en_US``). A
    name may have a typing error. Known codes may have a script or country, too (``eng_Latn``, ``zh-cn``).
    """
    language = _named(typed) or _parts(typed)[0]
    same = sorted(code for code in known if first_code(code) == language)
    return [code for code in same if _parts(code)[1:] == _parts(typed)[1:]] or same


def _named(typed: str) -> str | None:
    """Returns the first code of the language that ``typed`` names, or None."""
    first_codes, name = _first_codes(), typed.strip().lower()
    names = [code for code in first_codes if len(code) > CODE_CHARACTERS]
    near = difflib.get_close_matches(name, names, n=1) if len(_parts(name)[0]) > CODE_CHARACTERS else []
    codes = (first_codes.get(spelling) for spelling in (name, _parts(name)[0], *near))
    return next(filter(None, codes), None)


def _parts(code: str) -> list[str]:
    """Returns the language of ``code`` and what follows it, in lower case: ``eng_Latn`` is of eng, latn."""
    return code.strip().lower().replace("_", "-").split("-")


def remedy(typed: str, known: Collection[str]) -> str:
    """Returns the remedy for the unknown code ``typed``: the ``known`` codes of its language, a similar one, or all."""
    if meant := meant_codes(typed, known):
        return f"did you mean {' or '.join(map(repr, meant))}?"
    return suggestion(typed, known) if _named(typed) is None else f"known: {', '.join(sorted(known))}"


def check_codes(where: str, owner: str, typed: Iterable[str], known: Collection[str]) -> None:
    """Checks that each of the ``typed`` codes is one of the ``known``, which are those of ``owner``.

    Raises:
        ConfigError: for the setting ``where``, with the code that is probably meant.
    """
    for code in typed:
        if code not in known:
            raise ConfigError(where, f"{owner} has no language {code!r}", remedy(code, known))
