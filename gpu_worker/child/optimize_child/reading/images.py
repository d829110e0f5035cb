"""Rows that hold images, as the model's own processor reads them: how long they are, what is trained, the pixels.

The processor writes many tokens where the chat template wrote one placeholder. The text around them stays as it is,
which is checked token by token, so the places of trained text carry over.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from PIL import Image, ImageOps
from transformers import AutoProcessor

from optimize_child.analysis.counting import Counted
from optimize_child.analysis.placing import POLICIES
from optimize_child.failures import JobFailure
from optimize_child.reading.image_messages import image_paths, messages_with_images
from optimize_child.rendering.masks import Conversation, MaskRefused, Policy, token_mask
from optimize_child.rendering.template import ChatTemplate
from optimize_child.rendering.template_check import TemplateCheck

READS_TEXT = "Choose an image-text base model, or a dataset without images."


class Expanded(NamedTuple):
    """A row as the model reads it: its tokens with those of its images among them, and for each policy asked for
    which of them are trained."""

    ids: list[int]
    trained: list[list[bool]]


class ImageReader:
    """Reads rows with images for one model. `files` says where the images lie that rows name by path."""

    def __init__(self, base: Path, template: ChatTemplate, files: dict[str, str]) -> None:
        self._template = template
        self._check = TemplateCheck(template)
        self._files = files
        self.processor = load_processor(base)
        self._placeholder: str = self.processor.image_token
        self._placeholder_id: int = self.processor.image_token_id

    def read(self, row: dict[str, Any], policies: Sequence[Policy]) -> Expanded:
        """The tokens of a good row. Raises MaskRefused or TemplateRefused where it cannot be read."""
        conversation = self._conversation(row)
        (plain,), (offsets,) = self._template.tokenize([conversation.text])
        images = self._open_all(row)
        self._require_a_place_for_each(plain, images)
        ids = self._expand(conversation.text, images)
        lengths = self._image_lengths(images, len(ids) - len(plain))
        masks = [token_mask(offsets, conversation.trained_spans(policy)) for policy in policies]
        return Expanded(ids, [self._spread(plain, mask, ids, lengths) for mask in masks])

    def batch(self, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """The model's inputs for rows that all hold images, or of which none does: padded on the right, and pixels."""
        texts = [self._conversation(row).text for row in rows]
        images = [self._open_all(row) for row in rows]
        pixels = {"images": images} if any(images) else {}
        return dict(
            self.processor(
                text=texts,
                **pixels,
                add_special_tokens=False,
                padding=True,
                padding_side="right",
                return_tensors="pt",
            )
        )

    def count(self, row: dict[str, Any]) -> Counted:
        """A row's length as an analysis counts it, under each of its policies."""
        ids, trained = self.read(row, POLICIES)
        return Counted(len(ids), tuple(sum(mask[1:]) for mask in trained))

    def _conversation(self, row: dict[str, Any]) -> Conversation:
        return Conversation(self._check, messages_with_images(row), None)

    def _open_all(self, row: dict[str, Any]) -> list[Image.Image]:
        return [self._open(path) for path in image_paths(row)]

    def _open(self, path: str) -> Image.Image:
        if path not in self._files:
            raise MaskRefused(f"the row names the image {path}, which the dataset does not hold")
        try:
            with Image.open(self._files[path]) as image:
                return ImageOps.exif_transpose(image).convert("RGB")
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
            raise MaskRefused(f"the image {path} cannot be read: {error}") from error

    def _require_a_place_for_each(self, plain: list[int], images: list[Image.Image]) -> None:
        places = plain.count(self._placeholder_id)
        if places != len(images):
            raise MaskRefused(
                f"the rendered row has {places} places for images and the row names {len(images)}; "
                f"{self._placeholder} in a text is such a place too"
            )

    def _expand(self, text: str, images: list[Image.Image]) -> list[int]:
        pixels = {"images": [images]} if images else {}
        ids = self.processor(text=[text], **pixels, add_special_tokens=False)["input_ids"][0]
        return [int(token) for token in ids]

    def _image_lengths(self, images: list[Image.Image], added: int) -> list[int]:
        """How many tokens each image takes: an only one all that the processor has added, others when read alone."""
        if len(images) < 2:
            return [added + 1] * len(images)
        return [len(self._expand(self._placeholder, [image])) for image in images]

    def _spread(self, plain: list[int], mask: list[bool], ids: list[int], lengths: list[int]) -> list[bool]:
        """The mask of the rendered text as one of the row's tokens; an image is never trained."""
        spread: list[bool] = []
        images = iter(lengths)
        for token, is_trained in zip(plain, mask, strict=True):
            if token == self._placeholder_id:
                spread += [False] * next(images)
            elif ids[len(spread) : len(spread) + 1] == [token]:
                spread.append(is_trained)
            else:
                break
        if len(spread) != len(ids):
            raise MaskRefused("the model's processor changes the text around the images")
        return spread


def load_processor(base: Path) -> Any:
    """The processor of an image-text model. Raises JobFailure for a model without one, or one that cannot be loaded."""
    try:
        processor = AutoProcessor.from_pretrained(base, local_files_only=True, trust_remote_code=False)
    except (ImportError, ValueError, OSError) as error:
        raise JobFailure(
            "base_model_refused",
            f"The base model's processor cannot be loaded: {(str(error).strip().splitlines() or ['?'])[0][:300]}",
            hint="Processors that need torchvision are read where the job environment has it; " + READS_TEXT,
        ) from error
    if getattr(processor, "image_processor", None) is None or getattr(processor, "image_token_id", None) is None:
        raise JobFailure(
            "base_model_refused", "The base model reads text, and the dataset holds images.", hint=READS_TEXT
        )
    return processor
