"""Which pages visitors of a tenant may see."""

from __future__ import annotations

from django.db.models import BooleanField, F, Q, QuerySet, Value
from django.db.models.functions import Coalesce, NullIf

from knowledge.models import Page
from tenants.facts import TenantFacts


def visible(pages: QuerySet[Page], tenant: TenantFacts) -> QuerySet[Page]:
    """Return those of the pages that count as user-facing, by the rule that searches apply.

    A page's own mark decides, else its source's, else the tenant's rule for unmarked pages; where the
    tenant has a product, pages of another product are out.
    """
    unmarked = Value(tenant.unmarked_pages == "user-facing")
    mark = Coalesce("user_facing", "source__user_facing", unmarked, output_field=BooleanField())
    product = Coalesce(NullIf("product", Value("")), F("source__product"))
    marked = pages.annotate(is_visible=mark, own_product=product).filter(is_visible=True)
    return marked.filter(Q(own_product="") | Q(own_product=tenant.product)) if tenant.product else marked
