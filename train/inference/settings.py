"""The settings of a model that is run: where, in which precision, how much at once."""

from typing import Literal

from headrace.pipeline.core.settings import Positive, settings, unhashed


@settings
class Inference:
    """How a model reads and writes."""

    batch_tokens: Positive = 4096
    """A batch holds as many queries of about one length as fit into this many tokens, each as long as the longest."""
    precision: Literal["fp32", "bf16"] = "fp32"
    """Of weights and activations; log-probabilities are always taken in fp32."""
    device: Literal["auto", "cpu", "cuda"] = unhashed("auto")
    """Where the model runs; auto takes the GPU if there is one."""
