"""FOCUS columns of an export, in order: those of FOCUS by name, then Lahar's (`x_…`).

Source: FinOps Open Cost and Usage Specification 1.2 and 1.4, dataset Cost and Usage.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

FocusVersion = Literal["1.2", "1.4"]


class FocusColumn(NamedTuple):
    """One column."""

    name: str
    about: str
    nullable: bool = False
    only: FocusVersion | None = None
    """Only version with this column; `None`: both."""


FOCUS_COLUMNS: Final = (
    FocusColumn("BilledCost", "amount of the record, exact"),
    FocusColumn("BillingAccountId", "tenant; of usage without one the deployment"),
    FocusColumn("BillingAccountName", "the same", nullable=True),
    FocusColumn("BillingCurrency", "of the price book"),
    FocusColumn("BillingPeriodEnd", "end of the month on whose invoice the record stands, exclusive"),
    FocusColumn("BillingPeriodStart", "its start"),
    FocusColumn("ChargeCategory", "`Usage`; `Adjustment` for what rounding an invoice adds or takes"),
    FocusColumn("ChargeClass", "`Correction`: about a month that was closed before; else null", nullable=True),
    FocusColumn("ChargeDescription", "what was used, for how long", nullable=True),
    FocusColumn("ChargeFrequency", "`Usage-Based`; of an adjustment `One-Time`"),
    FocusColumn("ChargePeriodEnd", "end of the hour (UTC) in which the slice lies; of an adjustment of the month"),
    FocusColumn("ChargePeriodStart", "start of that hour, or of the month"),
    FocusColumn(
        "ConsumedQuantity", "quantity of the meter; 0 where increments or a minimum are charged and nothing was used", nullable=True
    ),
    FocusColumn("ConsumedUnit", "`GPU-Seconds`, `Core-Seconds`, `B-Seconds`, `Unit-Seconds` (weighted)", nullable=True),
    FocusColumn("ContractedCost", "as BilledCost"),
    FocusColumn(
        "ContractedUnitPrice", "price of a unit to the tenant: ListUnitPrice times the multipliers of the tenant", nullable=True
    ),
    FocusColumn("EffectiveCost", "as BilledCost"),
    FocusColumn("HostProviderName", "the issuer", only="1.4"),
    FocusColumn("InvoiceDetailId", "line of the invoice: id of the job; of an adjustment the record's", nullable=True, only="1.4"),
    FocusColumn("InvoiceId", "of the tenant's invoice for the month", nullable=True),
    FocusColumn("InvoiceIssuerName", "the issuer"),
    FocusColumn("ListCost", "ListUnitPrice times PricingQuantity; of an adjustment as BilledCost"),
    FocusColumn(
        "ListUnitPrice",
        "price of a unit to everybody: the price book's, with all multipliers but those of a tenant; 0: no price (x_Priced)",
        nullable=True,
    ),
    FocusColumn("PricingCategory", "`Dynamic` for preemptible jobs, else `Standard`", nullable=True),
    FocusColumn("PricingQuantity", "quantity that is charged; below zero in a reversal", nullable=True),
    FocusColumn("PricingUnit", "as ConsumedUnit", nullable=True),
    FocusColumn("ProviderName", "the issuer", only="1.2"),
    FocusColumn("PublisherName", "the issuer", only="1.2"),
    FocusColumn("ResourceId", "uid of the pod, or JOB/TASK/INDEX/ATTEMPT", nullable=True),
    FocusColumn("ResourceName", "`NAMESPACE/JOB/TASK[INDEX]`", nullable=True),
    FocusColumn("ResourceType", "`Pod`", nullable=True),
    FocusColumn("ServiceCategory", "`Compute`"),
    FocusColumn("ServiceName", "the deployment"),
    FocusColumn("ServiceProviderName", "the issuer", only="1.4"),
    FocusColumn("ServiceSubcategory", "`Containers`"),
    FocusColumn(
        "SkuId", "`METER/NODE_TYPE`, of GPUs `METER/GPU_MODEL/NODE_TYPE`; each part percent-encoded, `*`: not known", nullable=True
    ),
    FocusColumn("SkuMeter", "meter", nullable=True),
    FocusColumn("SkuPriceDetails", "JSON: node type, GPU model, price version, the multipliers in ListUnitPrice", nullable=True),
    FocusColumn("SkuPriceId", "SkuId, price version and multipliers: what ListUnitPrice follows from", nullable=True),
    FocusColumn("SubAccountId", "project", nullable=True),
    FocusColumn("SubAccountName", "the same", nullable=True),
    FocusColumn("Tags", "JSON: the job's labels", nullable=True),
    FocusColumn("x_Attempt", "of the replica, from 1", nullable=True),
    FocusColumn("x_ClusterName", "", nullable=True),
    FocusColumn("x_EventIds", "ids of the job events that start and end the slice, joined by a space", nullable=True),
    FocusColumn("x_GpuModel", "", nullable=True),
    FocusColumn("x_Inferred", "`true`: start or end is the best that is known, not what a node said", nullable=True),
    FocusColumn("x_JobId", "", nullable=True),
    FocusColumn("x_JobName", "", nullable=True),
    FocusColumn("x_Multipliers", "all of them, in their order: `queue=research x 0.8`", nullable=True),
    FocusColumn("x_NamespaceName", "", nullable=True),
    FocusColumn("x_NodeName", "", nullable=True),
    FocusColumn("x_NodeType", "", nullable=True),
    FocusColumn("x_PriceVersion", "of the price book; null: none was in force", nullable=True),
    FocusColumn("x_Priced", "`false`: the price book has no price for it", nullable=True),
    FocusColumn("x_PriorityClass", "", nullable=True),
    FocusColumn("x_QueueName", "", nullable=True),
    FocusColumn("x_RecordId", "id of the record"),
    FocusColumn("x_RecordKind", "`usage`, `excess`, `reversal`, `adjustment`"),
    FocusColumn("x_ReplicaIndex", "index in the task, from 0", nullable=True),
    FocusColumn("x_ReversesId", "id of the record that is taken back", nullable=True),
    FocusColumn("x_Revision", "how often the attempt's records had been corrected", nullable=True),
    FocusColumn("x_SegmentKind", "`queued`, `reserved`, `bound`, `running`, `terminating`", nullable=True),
    FocusColumn("x_SliceEnd", "to the microsecond, exclusive", nullable=True),
    FocusColumn("x_SliceStart", "to the microsecond", nullable=True),
    FocusColumn("x_TaskName", "", nullable=True),
    FocusColumn("x_UsageClass", "`useful`, or the waste: `failed`, `preempted`, `restarted`, `reserved`", nullable=True),
    FocusColumn("x_UserName", "as the source gave it", nullable=True),
)


def focus_columns(version: FocusVersion) -> list[FocusColumn]:
    """Return the columns of a version of FOCUS."""
    return [column for column in FOCUS_COLUMNS if column.only in (None, version)]
