"""Where a page names a licence: as its own, as that of a part, or in passing."""

import json
from time import process_time

import pytest

from tests.data_prep.extraction.test_page import page

BY = "https://creativecommons.org/licenses/by/4.0/"
CC, REL = f"<a href='{BY}'>CC BY 4.0</a>", f"<a rel='license' href='{BY}'>CC BY 4.0</a>"
TEXT = "The old mill stands by the river, and it has been in use for more than two hundred years without a break. "
BODY = f"<h1>The mill</h1><p>{TEXT * 3}</p><p>{TEXT * 3}</p>"
CHOOSER = (
    f"<a rel='license' href='{BY}'><img alt='Creative Commons License' src=88x31.png></a><br />This work is licensed"
    f" under a <a rel='license' href='{BY}'>Creative Commons Attribution 4.0 International License</a>."
)
OWN, PART, MENTION = "licence", "licence_of_part", "licence_mentioned"


def linked(**values: object) -> str:
    return f"<script type='application/ld+json'>{json.dumps(values)}</script>"


IN_HEAD = {
    f"<link rel=license href={BY}>": OWN,
    f"<link href='{BY}' rel='alternate LICENSE'>": OWN,
    f"<meta name=license content={BY}>": OWN,
    f"<meta name=DC.rights content={BY}>": OWN,
    f"<meta name=dcterms.license content={BY}>": OWN,
    f"<meta property=cc:license content={BY}>": OWN,
    f"<meta itemprop=license content={BY}>": OWN,
    linked(**{"@type": "WebPage", "license": BY}): OWN,
    linked(**{"@type": ["Thing", "schema:NewsArticle"], "license": {"@id": BY}}): OWN,
    linked(**{"@type": "http://schema.org/BlogPosting", "license": [{"name": "CC BY", "url": BY}]}): OWN,
    linked(**{"@type": "ImageObject", "license": BY}): PART,
    linked(**{"@type": "SoftwareSourceCode", "license": BY}): PART,
    linked(**{"@type": "Dataset", "license": BY}): PART,
    linked(**{"@type": "Article", "image": {"@type": "ImageObject", "license": BY}}): PART,
    linked(**{"@type": "Article", "isBasedOn": {"@type": "Article", "license": BY}}): PART,
    linked(**{"@type": "WebPage", "mainEntity": {"@type": "Article", "license": BY}}): OWN,
    linked(**{"@type": "WebPage", "mainEntity": {"@type": "SoftwareApplication", "license": BY}}): PART,
    linked(**{"@graph": [{"@type": "Person"}, {"@type": "ImageObject", "license": BY}]}): PART,
    linked(**{"@graph": [{"@type": "TechArticle", "license": BY}]}): OWN,
    linked(license=BY): MENTION,
}
IN_BODY = {
    f"<footer>{REL}</footer>": OWN,
    f"<footer><ul><li>{REL}</li></ul></footer>": OWN,
    f"<div class=site-footer><p>© 2024 The Valley. {REL}</p></div>": OWN,
    f"<p>{REL}</p>": OWN,
    f"<div>{CHOOSER}</div>": OWN,
    f"<p><span property='dct:title'>The mill</span> by Ann is licensed under a {REL}</p>": OWN,
    f"<aside class=widget><p>This blog is licensed under a {REL}</p></aside>": OWN,
    f"<aside class=widget>{CHOOSER}</aside>": OWN,
    f"<footer><ul><li id=copyright>Text is available under the {CC}; more terms may apply.</li></ul></footer>": OWN,
    f"<footer><p>© The Valley, {CC}</p></footer>": OWN,
    f"<div class=copyright>{CC}</div>": OWN,
    f"<p>Except where otherwise noted, content and images on this site are licensed under a {CC}.</p>": OWN,
    f"<p>This article is republished under a {CC} licence.</p>": OWN,
    f"<p>This is an Open Access article distributed under the terms of the Creative Commons License ({CC})</p>": OWN,
    f"<p>Dieser Text ist unter der Lizenz {CC} veröffentlicht.</p>": OWN,
    f"<p>Cet article est mis à disposition selon les termes de la {CC}.</p>": OWN,
    f"<p>Esta obra está bajo una {CC}.</p>": OWN,
    f"<p>Photos are ours. This article is under {REL}</p>": OWN,
    f"<div itemscope itemtype='https://schema.org/Article'><p>{TEXT}<a itemprop=license href={BY}>x</a></div>": OWN,
    f"<div typeof='sioc:Item foaf:Document' about='/node/1'><p>{TEXT}</p>{REL}</div>": OWN,
    f"<footer itemscope itemtype='https://schema.org/WPFooter'>{REL}</footer>": OWN,
    f"<figure><img src=a.jpg><figcaption>Photo: {CC}</figcaption></figure>": PART,
    f"<figure><img src=a.jpg><figcaption>{REL}</figcaption></figure>": PART,
    f"<footer><figure>{REL}</figure></footer>": PART,
    f"<p>Photo by Ann, {CC}</p>": PART,
    f"<p>Photo by Ann, {REL}</p>": PART,
    f"<p>{REL} image by Ann</p>": PART,
    f"<p>Header image: Ann / Commons, licensed under {REL}</p>": PART,
    f"<p>Foto: Ann, {CC}</p>": PART,
    f"<p>The source code of the engine is under {REL}</p>": PART,
    f"<footer><p>© 2024. Icons by Ann, {CC}</p></footer>": PART,
    f"<div class=wp-caption><p>Ann {REL}</p></div>": PART,
    f"<h2>Photo credits</h2><ul><li>Ann, {REL}</li><li>Ben, {REL}</li></ul>": PART,
    f"<h2>Image credits</h2><p>Ann, {REL}</p>": PART,
    f"<ul><li>The wheel, {REL}</li></ul>": PART,
    f"<table><tr><td>a.jpg<td>{REL}</table>": PART,
    f"<dl><dt>Licence<dd>{REL}</dl>": PART,
    f"<aside><p>{REL}</p></aside>": PART,
    f"<blockquote><p>A quotation. {REL}</p></blockquote>": PART,
    f"<div class=comment-list><p>I wrote: {REL}</p></div>": PART,
    f"<div class=related-posts>{REL}</div>": PART,
    f"<article>{BODY}</article><article><p>Another one.</p><footer>{REL}</footer></article>": PART,
    f"<article>{BODY}<article><p>A reply. {REL}</p></article></article>": PART,
    f"<div itemscope itemtype='https://schema.org/ImageObject'>{REL}</div>": PART,
    f"<div itemscope itemtype='https://schema.org/SoftwareSourceCode'><link itemprop=license href={BY}></div>": PART,
    f"<div itemscope itemtype='https://schema.org/Photograph'><meta itemprop=license content={BY}></div>": PART,
    f"<span typeof='dctype:StillImage'><a rel='cc:license' href={BY}>x</a></span>": PART,
    f"<span about='/a.jpg'><a rel=license href={BY}>x</a></span>": PART,
    f"<p>You may use any file that is under {CC}, for example.</p>": MENTION,
    f"<p>Creative Commons has a licence, {CC}, which many choose.</p>": MENTION,
    f"<ul><li>{CC}</li><li>another licence</li></ul>": MENTION,
    f"<pre>&lt;a&gt; {REL}</pre>": MENTION,
    f"<p>Write <code>{REL}</code></p>": MENTION,
    f"<footer><p>© 2024 The Valley. All rights reserved. {CC}</p></footer>": MENTION,
    f"<footer><p>{CC} Alle Rechte vorbehalten.</p></footer>": MENTION,
    f"<article>{BODY}{BODY}<footer>{REL}</footer></article><article><p>Another one.</p></article>": OWN,
}  # fmt: skip


def places(html: str) -> dict[str, str]:
    return {fact: value for fact, value in page(html).facts.items() if fact.startswith("licence")}


@pytest.mark.parametrize("markup", IN_HEAD)
def test_a_licence_in_the_head(markup):
    assert places(f"<title>T</title>{markup}<body><main>{BODY}</main>") == {IN_HEAD[markup]: BY}


@pytest.mark.parametrize("markup", IN_BODY)
@pytest.mark.parametrize("is_last", [True, False])
def test_a_licence_in_the_body(markup, is_last):
    parts = (f"<main>{BODY}</main>", f"<div>{markup}</div>")
    html = f"<title>T</title><body class='home footer-3 image'>{''.join(parts if is_last else parts[::-1])}"
    assert places(html) == {IN_BODY[markup]: BY}


def test_several_licences_each_have_their_place():
    other = BY.replace("by", "by-nc-sa")
    html = f"{BODY}<figure>{CC.replace(BY, other)}{CC}</figure><p>As {CC.replace(BY, BY + 'deed.de')} says</p><footer>"
    assert places(f"{html}{REL}") == {OWN: BY, PART: other, MENTION: f"{BY}deed.de"}
    assert places(f"{html}{REL}<a rel=license href={other}>") == {OWN: f"{BY} {other}", MENTION: f"{BY}deed.de"}


def test_the_time_is_linear_also_with_many_licences_deep_inside():
    seconds = []
    for size in (2_000, 8_000):
        html = "<article><div>" * 400 + f"<p>Photo {REL}" * size + "<i about=a.jpg itemtype=x itemtype=y>" * size
        start = process_time()
        assert places(html)
        seconds.append(process_time() - start)
    assert seconds[1] < 16 * seconds[0] + 0.2
