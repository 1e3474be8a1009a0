"""The kinds of page that one says it is, by Open Graph and schema.org: bits of a number, which are features.

{"type": "product, BreadcrumbList, Product"} ── page_kinds ──> 2
"""

from headrace.data_prep.extraction.html_facts import Facts

TYPES = (
    "article newsarticle blogposting report techarticle scholarlyarticle recipe review opinionnewsarticle"
    " reportagenewsarticle analysisnewsarticle advertisercontentarticle howto book",
    "product productgroup individualproduct offer aggregateoffer vehicle car product.item product.group og:product",
    "itemlist collectionpage searchresultspage offercatalog product.category imagegallery blog",
    "discussionforumposting qapage question socialmediaposting discussion forum",
    "localbusiness organization corporation service professionalservice contactpage aboutpage store restaurant event"
    " jobposting",
)
"""Types in lower case, by the bit that they set."""
_BIT = {name: 1 << bit for bit, names in enumerate(TYPES) for name in names.split()}


def page_kinds(facts: Facts) -> int:
    """Returns the kinds of page that the types in ``facts`` name, as bits; 0 if there are none."""
    kinds = 0
    for name in facts.get("type", "").lower().split(", "):
        kinds |= _BIT.get(name.rpartition("/")[2], 0)
    return kinds
