"""Our samples as the harness logs them, by hand; test_harness_logs.py compares with what it writes itself."""

from headrace.train.evaluation.harness_files import by_task, config

HARNESS_FIELDS = {
    "doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics", "doc_hash", "prompt_hash",
    "target_hash",
}  # fmt: skip


def sample(**fields):
    empty = {"name": "f:1", "group": "", "overlap": None, "prompts": [], "continuations": [], "log_likelihoods": [],
             "greedy": [], "tokens": [], "written": [], "right_answers": [], "gold": 0, "outcome": {}}  # fmt: skip
    return empty | fields


CHOICE = sample(prompts=["Q:"], continuations=[" a", " b"], log_likelihoods=[-1.5, -2.0], greedy=[True, False], gold=1,
                outcome={"acc": 0.0, "acc_norm": 1.0})  # fmt: skip


def test_choices_of_a_question():
    ((task, (line,)),) = by_task("quiz", [CHOICE])
    assert task == "quiz"
    assert line.keys() == HARNESS_FIELDS | {"acc", "acc_norm"}
    assert line["arguments"] == {
        "gen_args_0": {"arg_0": "Q:", "arg_1": " a"},
        "gen_args_1": {"arg_0": "Q:", "arg_1": " b"},
    }
    assert line["filtered_resps"] == [["-1.5", "True"], ["-2.0", "False"]]
    assert line["resps"] == [[["-1.5", "True"]], [["-2.0", "False"]]]
    assert (line["target"], line["metrics"], line["acc"], line["acc_norm"]) == ("1", ["acc", "acc_norm"], 0.0, 1.0)
    assert config(line) == {
        "output_type": "multiple_choice",
        "metric_list": [{"metric": "acc", "aggregation": "mean"}, {"metric": "acc_norm", "aggregation": "mean"}],
    }


def test_other_kinds_of_answers():
    beginnings = sample(prompts=["A", "B"], continuations=[" end"] * 2, log_likelihoods=[-1.0, -2.0], greedy=[True] * 2)
    word = sample(prompts=["He left the"], continuations=[" house"], log_likelihoods=[-3.0], greedy=[True])
    text = sample(prompts=["Q: 1 + 1"], written=[" 2"], right_answers=["2", "two"], outcome={"exact_match": 1.0})
    ((_, lines),) = by_task("mixed", [beginnings, word, text, sample(log_likelihoods=[-9.0], greedy=[False])])
    assert [line["doc_id"] for line in lines] == [0, 1, 2]
    assert lines[0]["arguments"]["gen_args_1"] == {"arg_0": "B", "arg_1": " end"}
    assert (lines[1]["target"], lines[1]["arguments"]) == (
        " house",
        {"gen_args_0": {"arg_0": "He left the", "arg_1": " house"}},
    )
    assert (lines[2]["filtered_resps"], lines[2]["resps"], lines[2]["target"]) == ([" 2"], [[" 2"]], "2")
    assert [config(line)["output_type"] for line in lines] == ["multiple_choice", "loglikelihood", "generate_until"]
    assert list(by_task("validation", [sample(log_likelihoods=[-9.0], greedy=[False])])) == []


def test_groups_are_tasks():
    found = dict(by_task("sums", [CHOICE | {"group": group} for group in ("plus", "minus", "plus")]))
    assert {task: [line["doc_id"] for line in lines] for task, lines in found.items()} == {
        "sums": [0, 1, 2],
        "sums_minus": [1],
        "sums_plus": [0, 2],
    }
    assert list(dict(by_task("sums", [CHOICE | {"group": "plus"}]))) == ["sums"]
