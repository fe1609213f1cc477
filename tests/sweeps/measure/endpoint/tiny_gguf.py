"""A Llama of random weights as llama.cpp reads it, and llama.cpp's own HTTP server on it.

Run as a program with a file's path it makes the model, serves it and prints its address; it ends with its
standard input. `xllamacpp` has llama.cpp's server, `gguf` writes the file."""

import sys

import gguf
import numpy as np
import xllamacpp

WIDTH, HEADS, KV_HEADS, INNER, LAYERS = 64, 4, 2, 128, 2
CONTEXT, SLOTS = 4096, 4
_SPECIAL = ["<unk>", "<s>", "</s>"]
_BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
_UNKNOWN, _CONTROL, _BYTE = 2, 3, 6  # of llama.cpp's kinds of tokens


def write_model(path):
    draw = np.random.default_rng(0)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    tokens = _SPECIAL + _BYTES
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * len(tokens))
    writer.add_token_types([_UNKNOWN, _CONTROL, _CONTROL, *[_BYTE] * len(_BYTES)])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    for name, shape in _shapes(len(tokens)):
        entry = 0.05 * draw.standard_normal(shape) if len(shape) > 1 else np.ones(shape)
        writer.add_tensor(name, entry.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _shapes(tokens):
    yield "token_embd.weight", (tokens, WIDTH)
    yield "output.weight", (tokens, WIDTH)
    yield "output_norm.weight", (WIDTH,)
    narrow = KV_HEADS * WIDTH // HEADS
    for layer in range(LAYERS):
        for name, *shape in (
            ("attn_norm", WIDTH),
            ("attn_q", WIDTH, WIDTH),
            ("attn_k", narrow, WIDTH),
            ("attn_v", narrow, WIDTH),
            ("attn_output", WIDTH, WIDTH),
            ("ffn_norm", WIDTH),
            ("ffn_gate", INNER, WIDTH),
            ("ffn_up", INNER, WIDTH),
            ("ffn_down", WIDTH, INNER),
        ):
            yield f"blk.{layer}.{name}.weight", tuple(shape)


def main(path):
    write_model(path)
    wanted = xllamacpp.CommonParams()
    wanted.model.path = path
    wanted.n_ctx, wanted.n_parallel, wanted.port = SLOTS * CONTEXT, SLOTS, 0
    wanted.cpuparams.n_threads = 1
    server = xllamacpp.Server(wanted)
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1])
