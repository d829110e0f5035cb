"""Addresses of the pages of workloads, models, evaluations, graders, judges, pipelines and comparisons."""

from django.urls import path

from evaluations.views import comparisons, evaluations, graders, judges, marks, models, pipelines, workloads

app_name = "evaluations"
urlpatterns = [
    path("workloads", workloads.workload_list, name="workloads"),
    path("workloads-new", workloads.new, name="workload-new"),
    path("workloads/<str:name>", workloads.detail, name="workload"),
    path("workloads/<str:name>/promote", workloads.promotion, name="promote"),
    path("workloads/<str:name>/archive", workloads.archive, name="workload-archive"),
    path("workloads/<str:name>/unarchive", workloads.unarchive, name="workload-unarchive"),
    path("workloads/<str:name>/settings", workloads.settings, name="workload-settings"),
    path("models", models.model_list, name="models"),
    path("models/<str:model_id>", models.detail, name="model"),
    path("models/<str:model_id>/alias", models.set_alias, name="model-alias"),
    path("models/<str:model_id>/alias/remove", models.remove_alias, name="model-alias-remove"),
    path("models/<str:model_id>/note", models.annotate, name="model-note"),
    path("evaluations", evaluations.evaluation_list, name="list"),
    path("evaluations/new", evaluations.new, name="new"),
    path("evaluations/<str:evaluation_id>", evaluations.detail, name="detail"),
    path("evaluations/<str:evaluation_id>/cancel", evaluations.cancel, name="cancel"),
    path("evaluations/<str:evaluation_id>/retry", evaluations.retry, name="retry"),
    path("evaluations/<str:evaluation_id>/mark", marks.mark, name="mark"),
    path("graders", graders.page, name="graders"),
    path("judges", judges.judge_list, name="judges"),
    path("judges/<str:judge_id>", judges.detail, name="judge"),
    path("pipelines", pipelines.pipeline_list, name="pipelines"),
    path("pipelines/new", pipelines.new, name="pipeline-new"),
    path("pipelines/new/check", pipelines.check, name="pipeline-check"),
    path("pipelines/<str:pipeline_id>", pipelines.detail, name="pipeline"),
    path("pipelines/<str:pipeline_id>/cancel", pipelines.cancel, name="pipeline-cancel"),
    path("pipelines/<str:pipeline_id>/resume", pipelines.resume, name="pipeline-resume"),
    path("pipelines/<str:pipeline_id>/annotate", pipelines.annotate, name="pipeline-annotate"),
    path("comparisons", comparisons.comparison_list, name="comparisons"),
    path("comparisons/new", comparisons.new, name="comparison-new"),
    path("comparisons/<str:comparison_id>", comparisons.detail, name="comparison"),
]
