"""An image-text model small enough for tests, made on the spot with its processor, and images to show it."""

from pathlib import Path

import tiny

# Reads a message's text and images where they stand in parts, and nothing else, as SmolVLM's template does.
TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' }}"
    "{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}{{ '<image>' }}{% elif part['type'] == 'text' %}{{ part['text'] }}{% endif %}"
    "{% endfor %}{{ '<|im_end|>' }}\n{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
SIDE, PATCH = 32, 8
TOKENS_AN_IMAGE = (SIDE // PATCH) ** 2


def make_image_model(folder: Path) -> Path:
    """A Llava folder with random weights: a vision tower of one layer, a projector, and a Llama of two layers."""
    import torch
    from transformers import CLIPVisionConfig, LlamaConfig, LlavaConfig, LlavaForConditionalGeneration, LlavaProcessor
    from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

    tokenizer = tiny.make_tokenizer(template=TEMPLATE)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<image>"]})
    size = {"height": SIDE, "width": SIDE}
    processor = LlavaProcessor(
        CLIPImageProcessorPil(size=size, crop_size=size),
        tokenizer,
        patch_size=PATCH,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=TEMPLATE,
    )
    text = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=2048,
        initializer_range=0.08,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    vision = CLIPVisionConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        image_size=SIDE,
        patch_size=PATCH,
        projection_dim=32,
    )
    config = LlavaConfig(
        text_config=text, vision_config=vision, image_token_index=tokenizer.convert_tokens_to_ids("<image>")
    )
    torch.manual_seed(7)
    LlavaForConditionalGeneration(config).to(torch.bfloat16).save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def make_image(path: Path, *, colour: tuple[int, int, int] = (200, 30, 30), size: tuple[int, int] = (40, 30)) -> Path:
    """A picture of one colour with a dark corner, as PNG whatever the file is called."""
    from PIL import Image

    picture = Image.new("RGB", size, colour)
    picture.paste((0, 0, 0), (0, 0, size[0] // 2, size[1] // 2))
    picture.save(path, format="PNG")
    return path


def image_row(*paths: str, question: str = "what is broken", answer: str = "screen") -> dict:
    """A row whose question shows images and then asks."""
    parts = [{"type": "image", "path": path} for path in paths]
    return {
        "messages": [
            {"role": "user", "content": [*parts, {"type": "text", "text": question}]},
            {"role": "assistant", "content": answer},
        ]
    }
