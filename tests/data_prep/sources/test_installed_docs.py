"""The documentation of installed packages as documents."""

import importlib.metadata

import pytest

from headrace.data_prep.document import Drop
from headrace.data_prep.sources import installed_docs
from headrace.data_prep.sources.installed_docs import STANDARD_LIBRARY, InstalledDocs
from headrace.pipeline.core.errors import ArtifactError, ConfigError

FILES = {
    "mill/__init__.py": '"""The mill\nand its wheel."""\n\n\ndef turn():\n    """Turn the\n    wheel."""\n',
    "mill/empty.py": "x = 1\n",
    "mill/guide.html": "<main><p>How to build a mill.</p></main>",
    "mill/data.json": "{}",
    "mill/notes.txt": " \n",
    "mill/large.txt": "x" * 5000,
    "my_mill-1.0.dist-info/METADATA": "Name: My.Mill\nVersion: 1.0\n\n# Mill\n\nA long\ndescription.\n",
    "my_mill-1.0.dist-info/licenses/LICENSE": "You may copy\nit.\n",
    "my_mill-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\n",
}


@pytest.fixture
def mill(tmp_path, monkeypatch):
    """An environment with one distribution."""
    for name, content in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    rows = [f"{name},sha256=sum{number},{len(content)}" for number, (name, content) in enumerate(FILES.items())]
    rows += ["mill/gone.md,sha256=x,3", "../../bin/mill.py,sha256=x,5", "my_mill-1.0.dist-info/RECORD,,"]
    (tmp_path / "my_mill-1.0.dist-info/RECORD").write_text("\n".join(rows) + "\n")
    monkeypatch.setattr("site.getsitepackages", lambda: [str(tmp_path)])
    monkeypatch.setattr("site.ENABLE_USER_SITE", False)
    caches = (installed_docs._roots, installed_docs._doc_files, installed_docs._checksum)
    for cached in caches:
        cached.cache_clear()
    yield tmp_path
    for cached in caches:
        cached.cache_clear()


def test_what_is_read_and_in_which_order(mill):
    source = InstalledDocs(packages=("my-mill",), record_bytes=1000)
    [file] = source.files()
    assert file.name == "my-mill"
    got = list(source.read("my-mill"))
    assert [document.id for document, _ in got] == [f"my-mill:{number}" for number in range(7)]
    assert {document.metadata["path"]: drop or document.text for document, drop in got} == {
        "mill/__init__.py": "The mill and its wheel.\n\nTurn the wheel.",
        "mill/gone.md": Drop("missing_file", "mill/gone.md"),
        "mill/guide.html": "How to build a mill.",
        "mill/large.txt": Drop("record_too_large", "5000"),
        "mill/notes.txt": Drop("no_text", ""),
        "my_mill-1.0.dist-info/METADATA": "# Mill\n\nA long description.",
        "my_mill-1.0.dist-info/licenses/LICENSE": "You may copy it.",
    }
    assert all(document.metadata["url"] == "" for document, _ in got)


def test_character_sets_and_binary_files(mill):
    """Bytes of the same length as in the RECORD."""
    contents = {
        "mill/__init__.py": b"# coding: latin-1\n'A caf\xe9.'\n",
        "mill/guide.html": b"<meta charset=koi8-r><p>" + "мир".encode("koi8-r"),
        "mill/notes.txt": b"%PDF-1.7",
    }
    for name, content in contents.items():
        (mill / name).write_bytes(content)
    got = {document.metadata["path"]: drop or document.text for document, drop in InstalledDocs().read("my-mill")}
    assert [got[name] for name in contents] == ["A café.", "мир", Drop("binary", "application/pdf")]


def test_the_checksum_follows_the_record_and_reads_nothing(mill):
    before = InstalledDocs(packages=("my-mill",)).files()
    (mill / "mill/__init__.py").write_text("changed")
    installed_docs._checksum.cache_clear()
    assert InstalledDocs(packages=("my-mill",)).files() == before
    record = mill / "my_mill-1.0.dist-info/RECORD"
    record.write_text(record.read_text().replace("sum0", "other"))
    for cached in (installed_docs._doc_files, installed_docs._checksum):
        cached.cache_clear()
    assert InstalledDocs(packages=("my-mill",)).files()[0].sha256 != before[0].sha256


def test_all_packages_and_the_standard_library(mill):
    assert [file.name for file in InstalledDocs().listing()] == ["my-mill", STANDARD_LIBRARY]


def test_an_unknown_package(mill):
    with pytest.raises(ConfigError) as error:
        InstalledDocs(packages=("my-mil",)).listing()
    assert str(error.value) == "source.packages: no distribution 'my-mil' is installed; did you mean 'my-mill'?"


def test_a_package_that_is_gone():
    with pytest.raises(ArtifactError) as error:
        list(InstalledDocs().read("no-such-thing"))
    wanted = "no-such-thing: is no longer installed; run in the environment that listed it"
    assert str(error.value) == wanted


@pytest.mark.slow
def test_this_environment():
    """Real packages: every document is read twice alike, and paragraphs lie on one line."""
    source = InstalledDocs(packages=("numpy", "rich"))
    assert [file.name for file in source.files()] == ["numpy", "rich"]
    first, second = (list(source.read("numpy")) for _ in range(2))
    assert [(d.id, d.text, drop) for d, drop in first] == [(d.id, d.text, drop) for d, drop in second]
    texts = {document.metadata["path"]: document.text for document, _ in first}
    version = importlib.metadata.version("numpy")
    assert "fundamental package for scientific computing" in texts[f"numpy-{version}.dist-info/METADATA"]
    lines = texts["numpy/lib/_function_base_impl.py"].split("\n")
    assert "Rotate an array by 90 degrees in the plane specified by axes." in lines
    assert any(line.startswith("A copy of `arr` with the elements") and line.endswith("array.") for line in lines)
