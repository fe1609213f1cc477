"""A language model of random weights, small enough for any CPU, and the server that serves it."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]
# torchvision's compiled part does not load beside every build of torch; transformers imports it.
_PROGRAM = f"""#!{sys.executable}
import sys
sys.path.insert(0, {str(ROOT)!r})
from advisor.models.zoo.torchvision_operators import import_torchvision
import_torchvision()
from transformers.cli.transformers import main
WORDS
main()
"""
_AS_VLLM = """
import argparse
words = argparse.ArgumentParser(allow_abbrev=False)
for name in ("serve", "model", "--host", "--port", "--dtype", "--max-model-len"):
    words.add_argument(name)
asked, _ = words.parse_known_args()
sys.argv[1:] = [
    "serve", asked.model, "--host", asked.host, "--port", asked.port, "--dtype", asked.dtype,
    "--continuous-batching", "--cb-block-size", "256", "--cb-num-blocks", "64",
]
"""


def save_tiny_llama(folder):
    """Two layers of 128 (heads of 32, the smallest that vLLM has on a CPU), a token a letter, each a whole
    character, and no end of a sequence: answers are as long as asked, and streamed token by token."""
    from advisor.models.zoo.torchvision_operators import import_torchvision

    import_torchvision()
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    # Printable ASCII, and the blank as byte-level BPE writes it.
    letters = [chr(code) for code in range(0x21, 0x7F)] + ["\u0120"]
    tokenizer = Tokenizer(models.BPE(vocab={letter: n for n, letter in enumerate(letters)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(folder)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(letters),
            hidden_size=128,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=8192,
            bos_token_id=None,
            eos_token_id=None,
            pad_token_id=0,
        )
    )
    model.generation_config.eos_token_id = None
    model.save_pretrained(folder)
    return folder


def program(folder, name="transformers"):
    """`transformers` as a program in the folder; as `vllm` it takes that one's words."""
    path = Path(folder) / name
    path.write_text(_PROGRAM.replace("WORDS", _AS_VLLM if name == "vllm" else ""))
    path.chmod(0o755)
    return path
