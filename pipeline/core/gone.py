"""Settings, options and commands that Headrace had once, and what to use in place of each.

headrace source=wikipedia  ->  headrace: source: unknown option 'wikipedia'; it is gone: read Parquet …

``suggestion`` (errors.py) says it, so every place that refuses an unknown name does.
"""

_HOURS = "it is gone: multiply the hours that headrace runs prints (sacct and sreport have those that SLURM charges)"
_APPRISE = "it is gone: use notify=apprise, and export HEADRACE_NOTIFY_URL="
_LAYER_TERMS = "it is gone: distillation=distilbert learns the distributions and the last hidden states of a teacher"
_LECTURES = "it is gone: the package for lectures in the repository of Headrace has it"
_OF_LECTURES = {
    "cleaning": "allowed_urls webtext_like",
    "columns": "perplexity",
    "evaluation": "baselines copying extraction extrapolation gpt2_table in_context judgements",
    "experiment": "bart_demo electra_demo prefix_demo span_demo wikitext103",
    "finetune": "boolq cb conll2003 copa multirc own_words record superglue_rte t5_boolq t5_cb t5_cnn_dm t5_cola "
    "t5_copa t5_glue t5_mnli t5_mrpc t5_multirc t5_qnli t5_qqp t5_record t5_rte t5_squad t5_sst2 t5_stsb t5_superglue "
    "t5_superglue_rte t5_translation t5_wic t5_wnli t5_wsc ud_pos wic wsc",
    "model": "electra_base electra_demo electra_large electra_small",
    "selection": "pareto",
    "objective": "replaced_tokens ul2",
    "source": "planted synthetic",
    "tokenizer": "unigram",
}
"""The options of each group that went to the package for lectures."""
GONE = {
    "source=wikipedia": "it is gone: read the wiki's published Parquet (wikimedia/wikipedia) with source=parquet",
    "source.passages_alone": "it is gone, with source=wikipedia: read the wiki's published Parquet with source=parquet",
    **dict.fromkeys(("cleaning=c4_unwrapped", "cleaning=unwrapped_lines"), "it is gone: give source.unwrap=true"),
    "dedup.engine": "it is gone: headrace.data_prep.dedup.minhash.min_hashes reads the signatures as datasketch does",
    "dedup.contained": "it is gone: dedup.repeated_words=50 drops documents that hold nothing but text of others",
    "source=token_files": "it is gone: decode the ids to JSON lines; their tokenizer (tokenizer=file) gives them back",
    **dict.fromkeys(("canaries", "canaries.copies"), f"{_LECTURES}: source=planted source.canaries.copies=[1,4]"),
    "source.batch_rows": "it is gone: 64 rows of Parquet are decoded at a time, fewer if they are large",
    "source=installed_docs": "it is gone: python -m headrace.documentation all; source=jsonl, paths=documentation",
    "notify=email": f"{_APPRISE}mailtos://… (mailto:// without TLS)",
    "notify=slack": f"{_APPRISE}the web address of the webhook, or slack://TOKEN_A/TOKEN_B/TOKEN_C",
    "notify=webhook": f"{_APPRISE}jsons://HOST/PATH (json:// without TLS)",
    "evaluation=harness": "it is gone: evaluation.yaml=[FILE] scores a task of lm-evaluation-harness",
    "objective.collocations": f"{_LECTURES}: objective=masked_collocations",
    "objective.span_boundary": f"{_LECTURES}: objective=masked_spans objective.span_boundary=true",
    "model.global_tokens": _LECTURES + ", in pictures of attention",
    "model.random_keys": _LECTURES + ", in pictures of attention",
    "model.generator_width": f"{_LECTURES}: objective=replaced_tokens objective.generator_width=",
    "tokenizer=tiktoken": "it is gone: convert it once with TikTokenConverter of transformers, then tokenizer=file",
    "tokenizer=vocab_txt": "it is gone: save it once with AutoTokenizer of transformers, then tokenizer=file",
    "tokenizer=gpt2_files": "it is gone: save it once with AutoTokenizer of transformers, then tokenizer=file",
    "cluster=python": "it is gone: give cluster.type=<module>:<class>, and its settings as +cluster.NAME=VALUE",
    "cluster.replaced_jobs": "it is gone: headrace cancel RUN stops queued jobs, and the next run submits others",
    **{
        f"cluster.{kind}_{name}": f"it is gone: cluster.{kind}_options=[--{name}=NAME]"
        for kind in ("data", "train")
        for name in ("account", "qos")
    },
    "cluster.one_job_bytes": "it is gone: cluster.one_job=always or never",
    "headrace picture": _LECTURES,
    "headrace board": _LECTURES,
    "headrace collocations": _LECTURES,
    **{f"{group}={option}": _LECTURES for group, options in _OF_LECTURES.items() for option in options.split()},
    "headrace mixtures": "it is gone: fit RegMix (Liu et al. 2024) to the losses of a sweep of mixture.sources",
    "headrace trace": "it is gone: headrace why SHARD:OFFSET --as token",
    "headrace order": "it is gone: headrace why STEP --as step",
    "headrace plan --price": "it is gone: multiply the GPU-hours; the package for lectures prints prices",
    "headrace sources": "it is gone: headrace why FILE --as text",
    "headrace similar": "it is gone: headrace why FILE --as page",
    "headrace push": "it is gone: headrace mirror push RUN URL",
    "headrace pull": "it is gone: headrace mirror pull RUN URL",
    "headrace compare-cleaning": "it is gone: headrace compare PRESET PRESET --as cleaning",
    "headrace thresholds": "it is gone: headrace compare RULE --as threshold (for by_language --to, in a clone of the "
    "repository: python -m benchmarks.data.language_estimation)",
    "headrace watch": "it is gone: headrace status --watch; with --score: headrace evaluate --checkpoints --watch",
    "headrace fill": _LECTURES,
    "headrace generate --fill": _LECTURES,
    "headrace sync": "it is gone: headrace export RUN --wandb",
    "headrace gc": "it is gone: headrace du --unused, and with --delete",
    "headrace train-extractor": "it is gone: python -m benchmarks.data.extractor_training in a clone of the repository",
    "headrace overlaps": "it is gone: headrace why all --as item, or a benchmark or item in place of all",
    "headrace release --provider": "it is gone, with the summary of training content: fill in the template of the EU",
    "headrace chat": "it is gone: headrace generate --chat --run RUN, or --model FOLDER",
    "headrace logs": "it is gone: headrace status RUN --logs, with --stage STAGE",
    "headrace verify": "it is gone: headrace release --check DIR",
    "headrace generate --alternatives": _LECTURES,
    "headrace plan --inference": _LECTURES,
    "--format hf": "it is gone: use --format parquet, and datasets.load_dataset(FOLDER).save_to_disk(…)",
    "--format mds": "it is gone: use --format parquet; streaming.MDSWriter takes its rows",
    "distillation=tinybert": _LAYER_TERMS,
    "distillation.hidden_weight": _LAYER_TERMS,
    "distillation.attention_weight": _LAYER_TERMS,
    "distillation.teacher_layers": "it is gone, with the terms of pairs of layers",
    "zero.secondary_ranks": "it is gone: over slow links between nodes give zero.stage=2 or 1",
    "price_per_core_hour": _HOURS,
    "price_per_gpu_hour": _HOURS,
    "currency": _HOURS,
}
"""The remedy by what is gone. ``GROUP=OPTION`` is an option of a group, or a type in its settings; ``headrace NAME`` is
a command, ``--format NAME`` a format of ``headrace export``; others are dotted names of settings."""


def has_no_effect(override: str) -> bool:
    """Whether ``override`` of a saved run is of something gone that changed no result: readers leave it out."""
    name, _, value = override.partition("=")
    if name == "notify":
        return override in GONE
    is_off = value in ("None", "null")
    return name in GONE and (is_off or GONE[name] == _HOURS or name.startswith("cluster."))
