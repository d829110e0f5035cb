"""Models as documents, as a card, and as a ZIP of their files."""

import io
import zipfile
from collections.abc import Iterator
from typing import Any

from optimize_site.kernel.blobs import open_blob, read_chunks
from registry import render
from registry.model_queries import facts_of, serving_of, workload_of
from registry.models import Artifact, Version
from registry.queries import listed

ZIP_DATE = (1980, 1, 1, 0, 0, 0)


def version_row(version: Version) -> dict[str, Any]:
    """A row of a list of versions."""
    serving = serving_of(version)
    return {"modelId": version.pk, "reference": version.reference, "version": version.number,
            "variant": serving.variant, "baseModel": serving.base_model, "adapterRank": serving.rank,
            "runId": version.lineage.get("run"), "digest": f"sha256:{version.digest}",
            "description": version.description, "createdBy": version.created_by, "createdAt": version.created_at}


def version_document(version: Version) -> dict[str, Any]:
    """Descriptor, artifact record and lineage of one version."""
    workload = workload_of(version)
    return render.version_document(version) | version_row(version) | {
        "workload": workload.name if workload else None, "lifecycle": "active",
        "servingModel": version.descriptor.get("servingModel", {}), "files": version.objects_listing,
        } | render.kin_document(version)


def model_row(artifact: Any) -> dict[str, Any]:
    """A row of `list_artifacts`."""
    serving = (artifact.newest_descriptor or {}).get("servingModel", {})
    return render.artifact_document(artifact) | {
        "versions": artifact.num_versions, "latest": f"{artifact.reference}:v{artifact.newest_number}",
        "modelId": artifact.newest_id, "baseModel": serving.get("baseModel"),
        "aliases": render.aliases_document(artifact)}


def model_document(artifact: Artifact) -> dict[str, Any]:
    """A named model: versions newest first, and aliases."""
    versions = artifact.versions.select_related("artifact").order_by("-number")
    return model_row(listed(artifact)) | {"versions": [version_row(version) for version in versions]}


def card_of(version: Version) -> str:
    """The model card, in Markdown."""
    facts, serving = facts_of(version), serving_of(version)
    rows = [("Base model", f"`{serving.base_model}`"), ("Base model commit", _code(facts["baseRevision"])),
            ("Adapter rank", facts["adapterRank"]), ("Adapted modules", ", ".join(facts["targetModules"])),
            ("Training run", _code(facts["runId"])), ("Optimizer steps", facts["step"]),
            ("Configuration hash", _code(facts["configHash"])), ("Dataset", _code(facts["dataset"])),
            ("Dataset hash", _code(facts["datasetHash"])),
            ("Chat template SHA-256", _code(facts["chatTemplateSha256"])),
            ("Digest", f"`sha256:{version.digest}`"), ("Registered", f"{version.created_at:%Y-%m-%d %H:%M} UTC")]
    table = "\n".join(f"| {label} | {_cell(value)} |" for label, value in rows if value not in (None, ""))
    about = _cell(version.description) or ("A base model, as its publisher made it." if serving.is_base else
                                           f"A LoRA adapter over {serving.base_model}.")
    return (f"---\nbase_model: {serving.base_model}\nlibrary_name: peft\n---\n\n# {version.reference}\n\n{about}\n\n"
            f"| | |\n|---|---|\n{table}\n" + ("" if serving.is_base else _usage(serving.base_model)))


def _usage(base_model: str) -> str:
    return ("\n## Use\n\n```python\nfrom peft import PeftModel\nfrom transformers import AutoModelForCausalLM\n\n"
            f'base = AutoModelForCausalLM.from_pretrained("{base_model}")\n'
            'model = PeftModel.from_pretrained(base, "folder-of-this-file")\n```\n')


def _code(text: Any) -> str:
    return f"`{text}`" if text else ""


def _cell(text: Any) -> str:
    """A person's text as one table cell that cannot become markup."""
    return str(text).replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def adapter_zip(version: Version) -> Iterator[bytes]:
    """The version's files and its card as a ZIP, a mebibyte at a time; the same version gives the same bytes."""
    sink = _Sink()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_STORED) as archive:
        for entry in version.objects_listing:
            info = zipfile.ZipInfo(entry["path"], ZIP_DATE)
            info.file_size = entry["bytes"]
            with open_blob(entry["sha256"]) as source, archive.open(info, "w") as target:
                for chunk in read_chunks(source):
                    target.write(chunk)
                    yield sink.taken()
        archive.writestr(zipfile.ZipInfo("README.md", ZIP_DATE), card_of(version))
    yield sink.taken()


class _Sink(io.RawIOBase):
    """Collects what the ZIP writer writes until it is sent on."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, part: Any) -> int:
        self.parts.append(bytes(part))
        return len(part)

    def taken(self) -> bytes:
        whole, self.parts = b"".join(self.parts), []
        return whole
