"""Compiles the layers of a model for an H100 on a machine without a GPU; started by test_compiles_for_h100.py.

    CUDA_PYTHON tests/train/pretended_h100.py CASE_JSON

CUDA_PYTHON has a CUDA build of torch, numpy and pydantic. A case has the fields of a ModelConfig (``model``) and
``recompute``. Prints one JSON line: frames and graphs that Dynamo made, graph breaks, and each Triton kernel of
attention with its tensor-core instruction and its shared memory. Nothing is launched: all tensors are fake.

CUDA's runtime and driver are libraries of a few functions here, which report one device and success, so that torch
registers its operations for GPUs. torch's questions for the properties of the device are answered in Python.
"""

import functools
import json
import os
import subprocess
import sys
import tempfile
import types
from pathlib import Path

VOCABULARY = 50_257
DEVICES = "int cudaGetDeviceCount(int *n) { *n = 1; return 0; } int cudaGetDevice(int *d) { *d = 0; return 0; }"
RUNTIME = f"""
{DEVICES}
int cudaDeviceGetAttribute(int *value, int attribute, int device) {{
    *value = attribute == 75 ? 9 : attribute == 76 ? 0 : attribute == 16 ? 132 : 1;  /* 9.0, 132 processors */
    return 0;
}}
int cudaDriverGetVersion(int *v) {{ *v = 13000; return 0; }}
int cudaStreamIsCapturing(void *s, int *is) {{ *is = 0; return 0; }}
int cudaDeviceGetStreamPriorityRange(int *low, int *high) {{ *low = 0; *high = -5; return 0; }}
int cudaStreamCreateWithPriority(void **s, unsigned f, int p) {{ *s = (void *)16; return 0; }}
int cudaEventCreateWithFlags(void **e, unsigned f) {{ *e = (void *)32; return 0; }}
"""
SILENT_RUNTIME = (
    *("SetDevice", "GetLastError", "PeekAtLastError", "DeviceSynchronize", "StreamSynchronize", "Free", "EventRecord"),
    *("EventRecordWithFlags", "StreamWaitEvent", "EventDestroy", "EventQuery", "StreamQuery", "EventSynchronize"),
)
DRIVER = """
int cuDriverGetVersion(int *v) { *v = 13000; return 0; } int cuDeviceGetCount(int *n) { *n = 1; return 0; }
int cuDeviceGet(int *d, int i) { *d = 0; return 0; } int cuCtxGetDevice(int *d) { *d = 0; return 0; }
int cuCtxGetCurrent(void **c) { *c = (void *)1; return 0; }
int cuDevicePrimaryCtxRetain(void **c, int d) { *c = (void *)1; return 0; }
int cuDevicePrimaryCtxGetState(int d, unsigned *f, int *is) { *f = 0; *is = 1; return 0; }
"""
SILENT_DRIVER = (
    *("Init", "CtxSetCurrent", "CtxGetLimit", "CtxSetLimit", "DeviceGetAttribute", "FuncGetAttribute"),
    *("FuncSetAttribute", "FuncSetCacheConfig", "ModuleGetFunction", "ModuleLoadData", "GetErrorString"),
)
"""Functions that only succeed."""


def library(path: Path, source: str, prefix: str, silent: tuple[str, ...]) -> None:
    functions = "".join(f"int {prefix}{name}() {{ return 0; }}\n" for name in silent)
    path.with_suffix(".c").write_text(source + functions)
    subprocess.run(["cc", "-shared", "-fPIC", "-w", "-o", path, path.with_suffix(".c")], check=True)


def start_again(folder: Path) -> int:
    """Runs this script with the two libraries; returns its exit status."""
    library(folder / "cudart.so", RUNTIME, "cuda", SILENT_RUNTIME)
    library(folder / "libcuda.so.1", DRIVER, "cu", SILENT_DRIVER)
    (folder / "libcuda.so").symlink_to("libcuda.so.1")
    own = {"LD_LIBRARY_PATH": str(folder), "LD_PRELOAD": str(folder / "cudart.so"), "PRETENDED_H100": str(folder)}
    caches = {"TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"), "TRITON_CACHE_DIR": str(folder / "triton")}
    return subprocess.run([sys.executable, *sys.argv], env=os.environ | own | caches).returncode


def pretend() -> None:
    """Answers what torch, Inductor and Triton ask of a GPU as an H100 does."""
    import torch
    from triton.backends.compiler import GPUTarget
    from triton.runtime import driver

    properties = types.SimpleNamespace(
        name="NVIDIA H100 80GB HBM3", major=9, minor=0, multi_processor_count=132, total_memory=80 * 2**30,
        max_threads_per_multi_processor=2048, max_threads_per_block=1024, regs_per_multiprocessor=65536, warp_size=32,
        shared_memory_per_block=49152, shared_memory_per_block_optin=232448, shared_memory_per_multiprocessor=233472,
        L2_cache_size=50 * 2**20, gcnArchName="", is_integrated=False, is_multi_gpu_board=False, uuid="",
        memory_clock_rate=2619000, memory_bus_width=5120, clock_rate=1980000,
    )  # fmt: skip
    stream = types.SimpleNamespace(
        cuda_stream=0, stream_id=0, device_index=0, device_type=1, device=torch.device("cuda:0")
    )
    answers = {
        "is_available": True, "device_count": 1, "current_device": 0, "_lazy_init": None, "is_initialized": True,
        "get_device_properties": properties, "get_device_capability": (9, 0), "get_device_name": properties.name,
        "synchronize": None, "set_device": None, "_exchange_device": 0, "_maybe_exchange_device": 0,
        "current_stream": stream, "get_rng_state": torch.zeros(16, dtype=torch.uint8), "set_rng_state": None,
        "manual_seed_all": None,
    }  # fmt: skip
    for name, answer in answers.items():
        setattr(torch.cuda, name, lambda *_, answer=answer, **__: answer)
    for name in ("getCurrentRawStream", "getDevice", "setDevice", "exchangeDevice", "maybeExchangeDevice"):
        setattr(torch._C, f"_cuda_{name}", lambda *_: 0)
    from torch._inductor.runtime import triton_helpers  # keeps the functions of torch.cuda that it finds
    from torch._subclasses import fake_tensor

    fake_tensor.init_gpu_context = lambda *_: None
    limits = {"max_shared_mem": 232448, "max_num_regs": 65536, "multiprocessor_count": 132, "warpSize": 32}
    clocks = {"sm_clock_rate": 1980000, "mem_clock_rate": 2619000, "mem_bus_width": 5120}

    class Driver:
        utils = types.SimpleNamespace(get_device_properties=lambda _: limits | clocks)
        launcher_cls = None
        is_active = classmethod(lambda _: True)

        def __getattr__(self, name: str):
            found = {
                "get_current_target": GPUTarget("cuda", 90, 32), "get_current_device": 0, "get_current_stream": 0,
                "set_current_device": None, "get_active_torch_device": torch.device("cuda:0"),
                "get_device_interface": torch.cuda,
            }  # fmt: skip
            return lambda *_: found[name]

    for kernel in ("flash", "mem_efficient", "cudnn"):  # torch asks CUDA itself whether it can take them
        getattr(torch.backends.cuda, f"enable_{kernel}_sdp")(False)
    driver.set_active(Driver())
    triton_helpers.set_driver_to_gpu = lambda: None  # it would make one of its own


def shape_sums():
    """Gives fake tensors the shape of a product that is added in fp32 (train/model/head.py): torch 2.11 takes its type
    for a factor there. It holds as long as what is returned exists."""
    import torch
    from torch._decomp import decomposition_table

    shapes = torch.library.Library("aten", "IMPL", "Meta")
    shapes.impl("addmm.dtype_out", lambda *_, out, **__: out, allow_override=True)
    decomposition_table.pop(torch.ops.aten.addmm.dtype_out, None)
    return shapes


def compile_kernels() -> list[dict]:
    """Makes Inductor compile kernels and not run them; returns the list to which those of attention are added."""
    from torch._inductor import config
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    kernels: list[dict] = []

    def precompile(self: CachingAutotuner, *_, **__) -> None:
        self._precompile_worker()
        for result in self.compile_results:
            ptx, name = result.kernel.asm["ptx"], self.fn.__name__
            if "tem_" in name:
                kind = next((word for word in ("wgmma", "mma.sync") if word in ptx), "none")
                kernels.append({"name": name, "products": kind, "shared_bytes": result.kernel.metadata.shared})

    CachingAutotuner.precompile = precompile
    CachingAutotuner.run = lambda *_, **__: None
    config.use_static_cuda_launcher = False
    config.fx_graph_cache = False
    config.compile_threads = 1
    return kernels


def backend():
    """Returns a backend of torch.compile that compiles with Inductor, without its search for patterns of attention, and
    then runs the graph operation by operation on fake tensors."""
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.partitioners import min_cut_rematerialization_partition
    from torch._inductor.compile_fx import compile_fx_inner
    from torch._inductor.decomposition import select_decomp_table

    def compiler(graph, examples, is_backward: bool):
        compile_fx_inner(graph, examples, is_backward=is_backward)
        return graph

    return aot_autograd(
        fw_compiler=functools.partial(compiler, is_backward=False),
        bw_compiler=functools.partial(compiler, is_backward=True),
        partition_fn=min_cut_rematerialization_partition,
        decompositions=select_decomp_table(),
    )


def one_update(case: dict) -> dict:
    """Compiles forward and backward pass of a training step of ``case``; returns what Dynamo counted."""
    import torch
    from torch._dynamo.utils import counters
    from torch._subclasses.fake_tensor import FakeTensorMode

    from headrace.train.config import ModelConfig
    from headrace.train.data.batches import EncoderTokens
    from headrace.train.model import compilation, execution
    from headrace.train.model.transformer import Transformer

    torch.compiler.reset()
    counters.clear()
    compiled = functools.partial(torch.compile, backend=backend())
    execution.compile_lazily, compilation._compiled_once = compiled, functools.cache(compiled)
    fields = {name: tuple(value) if isinstance(value, list) else value for name, value in case["model"].items()}
    config = ModelConfig(**fields)
    with FakeTensorMode(allow_non_fake_inputs=True):
        with torch.device("cuda:0"):
            torch.set_default_dtype(torch.bfloat16)
            model = Transformer(config, VOCABULARY).train()
            torch.set_default_dtype(torch.float32)
            tokens = torch.zeros(2, config.context, dtype=torch.int64)
        execution.prepare_blocks(model, True, case["recompute"])
        execution.pad_vocabulary(model)
        more = {"source": EncoderTokens(tokens, tokens, tokens)} if config.stack == "encoder_decoder" else {}
        if config.stack != "discriminator":
            more["targets_BT"] = tokens
        model(tokens, tokens, tokens, **more).float().sum().backward()
    frames = counters["frames"]
    graphs = counters["stats"]["unique_graphs"]
    return {"frames": frames["total"], "graphs": graphs, "breaks": list(counters["graph_break"])}


def main() -> int:
    if "PRETENDED_H100" not in os.environ:
        with tempfile.TemporaryDirectory() as folder:
            return start_again(Path(folder))
    sys.path.insert(0, str(Path(__file__).parents[2] / "src"))
    pretend()
    _shapes, kernels = shape_sums(), compile_kernels()
    print(json.dumps({**one_update(json.loads(Path(sys.argv[1]).read_text())), "kernels": kernels}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
