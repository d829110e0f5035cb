"""Evaluations as a Django app."""

from django.apps import AppConfig


class EvaluationsConfig(AppConfig):
    name = "evaluations"
    verbose_name = "Evaluations"

    def ready(self) -> None:
        """Offer scores, promotion and graders to the apps below, and say which evaluations still want their judges."""
        from evaluations.bundle_graders import canonical_bundle, sandbox_facts
        from evaluations.claims import list_claims
        from evaluations.in_progress import comparisons_in_progress, evaluations_in_progress, pipelines_in_progress
        from evaluations.judging import HOLDER, wants_judge
        from evaluations.operations.promotion import Promotions
        from evaluations.rules import KnownRules
        from evaluations.scores import Scores
        from evaluations.services import canonical_service
        from optimize_site.kernel import box, graders, promotion, scores
        from optimize_site.kernel.garbage import BOOKKEEPING
        from optimize_site.kernel.in_progress import LISTERS
        from optimize_site.kernel.judges import HOLDERS

        scores.provide(Scores())
        promotion.provide(Promotions())
        graders.provide(KnownRules())
        graders.provide_target("http", canonical_service)
        graders.provide_target("bundle", canonical_bundle)
        box.FACTS["bundles"] = sandbox_facts
        box.CLAIM_LISTERS.append(list_claims)
        LISTERS.extend([evaluations_in_progress, comparisons_in_progress, pipelines_in_progress])
        HOLDERS[HOLDER] = wants_judge
        BOOKKEEPING.add("evaluations.Prediction")
