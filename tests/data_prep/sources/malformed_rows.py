"""JSON lines and Parquet tables whose values are not what they should be."""

import io
import json
from random import Random

import pyarrow
from pyarrow import ipc, parquet

from tests.data_prep.adversarial import hostile_text
from tests.data_prep.sources.malformed_html import good_page, odd_page, sentence

VALUES = (
    "5", "null", "true", "[]", "{}", '""', '" "', "1e999", "-0.0", "NaN", "Infinity", "9" * 5000, '"\\ud800"',
    '"\\u0000"',
    '"\\udc00\\ud800x"', '"a\\ud83d\\ude00b"', "[" * 900 + "]" * 900, "[" * 100_000, '{"a":' * 900 + "1" + "}" * 900,
    '{"a":' * 200_000, '"\\x"', '"\\u12"', '"' + "\\n" * 5000 + '"', '["text"]', '"\u2028\u0085\ufeff"',
    '"' + "é" * 2000 + '"',
)  # fmt: skip


def good_line(field: str, chance: Random, number: int) -> bytes:
    text = sentence(number) if field == "text" else good_page(chance, number).decode()
    return json.dumps({field: text, "url": f"http://x/{number}", "id": number}).encode() + b"\n"


def odd_line(field: str, limit_bytes: int, chance: Random) -> bytes:
    kind = chance.random()
    if kind < 0.004:
        size = chance.choice([3, 60]) * limit_bytes
        return b'{"' + field.encode() + b'": "' + b"x" * size + b'"}\n'
    if kind < 0.6:
        text = _odd_text(chance) if field == "text" else odd_page(chance).decode("latin-1")
        url = chance.choice(["http://x/", text[:20_000]])
        row = {key: json.dumps(value) for key, value in ((field, text), ("url", url), ("id", 1), ("date", "2026"))}
        for key in chance.sample([*row, "other", "", "\\ud800"], chance.choice([1, 2])):
            row[key] = chance.choice(VALUES)
        written = "{" + ", ".join(f'"{key}": {value}' for key, value in row.items()) + "}"
        return written.encode("utf-8", "surrogatepass") + chance.choice([b"\n", b"\r\n", b"\r", b"\n\n", b"", b"\0\n"])
    if kind < 0.7:
        return json.dumps({field: sentence(3)}).encode(chance.choice(["utf-16", "utf-32", "utf-16-be"])) + b"\n"
    line = good_line(field, chance, 4)
    return chance.choice([
        line[:-3] + b"\n", line[5:], b"\xef\xbb\xbf" + line, line * 2, line.rstrip() + line,
        b"[" + line.rstrip() + b"]\n",
        chance.randbytes(300) + b"\n", b"\0" * 500 + b"\n", b"\n" * 500, b" \t\r\n", line.replace(b"a", b"\xff"),
        line.replace(b":", b""), line.replace(b'"', b"'"), chance.choice(VALUES).encode() + b"\n", line.replace(b"e",
        b"\0"),
    ])  # fmt: skip


def _odd_text(chance: Random) -> str:
    """A sentence, or text that is made to be slow, also as an address."""
    if chance.random() < 0.5:
        return sentence(3)
    return chance.choice(["", "\n", "http://"]) + hostile_text(chance, chance.choice([100, 3_000, 30_000]))


def odd_table(chance: Random) -> pyarrow.Table:
    """Columns of odd types."""
    rows = chance.choice([1, 3, 40])
    columns = {
        name: chance.choice([
            [sentence(3)] * rows, [b"\xff\xfe\x00"] * rows, [5] * rows, [None] * rows, [["a"]] * rows,
            [{"text": "b"}] * rows,
            [10**15] * rows, [1.5] * rows, ["\0"] * rows, [""] * rows,
        ])
        for name in chance.sample(["text", "url", "id", "date", "other"], chance.randint(1, 5))
    }  # fmt: skip
    table = pyarrow.table(columns)
    if "date" in columns and table.schema.field("date").type == pyarrow.int64():
        unit = chance.choice(["s", "ms", "us", "ns"])
        table = table.set_column(table.schema.names.index("date"), "date", table["date"].cast(pyarrow.timestamp(unit)))
    if chance.random() < 0.2 and "text" in columns and table.schema.field("text").type == pyarrow.string():
        broken = pyarrow.array([chance.choice([b"\xff", b"\xed\xa0\x80"])] * rows).view(pyarrow.string())
        table = table.set_column(table.schema.names.index("text"), "text", broken)
    return table


def odd_parquet(chance: Random) -> bytes:
    table, file = odd_table(chance), io.BytesIO()
    parquet.write_table(
        table, file, row_group_size=chance.choice([1, 10, 1000]), compression=chance.choice(["NONE", "snappy",
        "gzip", "zstd"]),
        use_dictionary=chance.random() < 0.5, version="2.6", store_schema=chance.random() < 0.5,
        data_page_version=chance.choice(["1.0", "2.0"]),
    )  # fmt: skip
    return file.getvalue()


def odd_arrow(chance: Random) -> bytes:
    """A stream or a file of record batches."""
    table, file = odd_table(chance), io.BytesIO()
    options = ipc.IpcWriteOptions(compression=chance.choice([None, "lz4", "zstd"]))
    with chance.choice([ipc.new_stream, ipc.new_stream, ipc.new_file])(file, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=chance.choice([1, 10, 1000]))
    return file.getvalue()
