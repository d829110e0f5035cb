"""A corrected chat template from the catalog to the job that prepares the model, and to whoever asks what it is."""

import pytest

from optimize_site.kernel.catalog import MalformedCatalog, load_catalog, load_correction
from optimize_site.kernel.conf import home
from registry.base_model_queries import get_base_model
from registry.base_model_render import base_model_document
from registry.work import BaseModelWork
from tests import factories as make

pytestmark = pytest.mark.django_db
CORRECTION = f"""reason = "It helps."
[[variants]]
shipped = "{"1" * 64}"
corrected = "{"2" * 64}"
replace = [{{ old = "a", new = "b" }}]
"""


@pytest.fixture
def box(tmp_path, monkeypatch):
    monkeypatch.setenv("OPTIMIZE_HOME", str(tmp_path))
    make.add_to_catalog("base_models", f'["{make.TINY}"]\nsource = {{ kind = "folder", path = "/nowhere" }}\n'
                        'chat_template_correction = "ours"\n')
    folder = home() / "catalogs" / "chat_templates"
    folder.mkdir()
    (folder / "ours.toml").write_text(CORRECTION)
    return folder


@pytest.mark.requirement("R328")
def test_the_job_that_prepares_a_model_is_given_its_correction_and_the_record_says_what_came_of_it(box):
    make.make_device("host", kind="host", profile="host")
    make.make_base_model(phase="PENDING")
    attempt = make.claim_job("host")
    plan = BaseModelWork().plan(BaseModelWork().get(attempt.holder_id), attempt)
    (variant,) = plan["catalog"]["chat_template_correction"]["variants"]
    assert (variant["shipped"], variant["replace"]) == ("1" * 64, [{"old": "a", "new": "b"}])
    make.tell_job(attempt, {"type": "finished", "revision": "r", "chat_template_sha256": "2" * 64,
                            "chat_template_correction": {"shipped_sha256": "1" * 64, "reason": "It helps."}})
    make.end_job(attempt)
    shown = base_model_document(get_base_model(make.TINY))
    assert (shown["chatTemplateSha256"], shown["chatTemplateCorrection"]) == ("2" * 64, "It helps.")
    assert shown["chatTemplateNote"] is None


@pytest.mark.requirement("R328")
def test_a_correction_that_was_not_made_is_told_before_the_model_is_prepared_and_after(box):
    before = base_model_document(get_base_model(make.TINY))
    assert before["chatTemplateNote"].startswith("Corrected once the model is prepared, if its repository ships")
    make.make_base_model(facts={"chatTemplateSha256": "3" * 64})
    after = base_model_document(get_base_model(make.TINY))
    assert "knows other templates" in after["chatTemplateNote"] and after["chatTemplateCorrection"] is None


def test_a_model_without_a_correction_says_nothing_of_one(box):
    make.make_base_model("acme/plain", facts={"chatTemplateSha256": "3" * 64})
    shown = base_model_document(get_base_model("acme/plain"))
    assert shown["chatTemplateCorrection"] is shown["chatTemplateNote"] is None


def test_a_correction_that_is_not_there_or_cannot_be_read_is_told_with_its_file(box):
    with pytest.raises(MalformedCatalog, match="names the chat template correction 'theirs'"):
        load_correction("theirs")
    (box / "ours.toml").write_text('reason = "x"\nvariant = []\n')
    with pytest.raises(MalformedCatalog, match=r"ours\.toml cannot be used"):
        load_correction("ours")


@pytest.mark.requirement("R328", "R331")
def test_every_rule_and_correction_that_the_shipped_catalog_names_is_there():
    entries = load_catalog().base_models.values()
    corrected = [entry for entry in entries if entry.chat_template_correction]
    assert len(corrected) == 3
    assert all(load_correction(entry.chat_template_correction).variants for entry in corrected)
    llama = [entry.repository for entry in entries if "system_needs_user_with_tools" in entry.rules]
    assert llama == ["unsloth/Llama-3.2-1B-Instruct"]
