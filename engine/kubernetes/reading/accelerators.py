"""Accelerators: number of GPUs per unit of a resource.

A row of the table is a resource name, or a pattern with `*`, and its share of a GPU: `1` for whole cards, `1/100` for per cent. A
MIG profile is its number of the card's compute slices, of seven, or of four on some cards. A `device`, like a resource without a
row, is counted by name and is not a GPU. Names without a `/` are Kubernetes' own and not accelerators. Rows of an operator take
precedence.

Some resources qualify another one, as HAMi's `nvidia.com/gpucores` does `nvidia.com/gpu`; beside it they count nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from fractions import Fraction
from functools import lru_cache
from typing import Final

DEVICE: Final = "device"
"""Share of a resource that is counted by name, without GPU time."""
NVIDIA: Final = "nvidia.com/gpu"
DEVICE_CLASS: Final = "deviceclass.resource.kubernetes.io/"
"""Prefix of a device class in the extended resource that Kubernetes derives from it. Rows may omit it."""
_KOORDINATOR: Final = ("koordinator.sh", "kubernetes.io")

_LONGEST: Final = 32
"""Maximum length of a share (characters)."""
_NAME: Final = 317
"""Maximum length of a resource name in Kubernetes (characters): domain, slash, name."""
_MOST: Final = 1_000_000
"""Maximum number of GPUs per unit."""


def read_share(share: str | float) -> Fraction | None:
    """Parse the share of a row: `1`, `0.25`, `1/7`; `device` gives `None`.

    Raises:
        ValueError: it is neither, or not above 0.
    """
    if share == DEVICE:
        return None
    try:
        found = Fraction(str(share)) if len(str(share)) <= _LONGEST and "e" not in str(share).lower() else Fraction(0)
    except (ValueError, ZeroDivisionError):
        found = Fraction(0)
    if not 0 < found <= _MOST:
        raise ValueError(f'{share!r} is no share of a GPU: write 1, "1/4", 0.25 or "{DEVICE}"')
    return found


def _rows(shares: Iterable[tuple[str, str | float]]) -> dict[str, Fraction | None]:
    return {name: read_share(share) for name, share in shares}


_ROWS: Final = _rows({
    **dict.fromkeys(["*/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe", "metax-tech.com/sgpu", "iluvatar.ai/vgpu"], "1"),
    **dict.fromkeys(["hygon.com/dcu", "hygon.com/dcunum", "volcano.sh/gpu-number", "volcano.sh/vgpu-number"], "1"),
    "aliyun.com/gpu-count": "1",
    # Device classes. Not mig.nvidia.com: a claim does not state the profile.
    **dict.fromkeys(["gpu.nvidia.com", "vfio.gpu.nvidia.com", "gpu.amd.com", "gpu.intel.com"], "1"),
    **dict.fromkeys([f"{domain}/{name}" for domain in _KOORDINATOR for name in ("gpu", "gpu-core")], "1/100"),
    **dict.fromkeys(["aliyun.com/gpu-core.percentage", "tencent.com/vcuda-core"], "1/100"),
    "k8s.amazonaws.com/vgpu": "1/10",
    # Partitions of an MI300X, which has eight dies.
    "amd.com/spx_*": "1", "amd.com/dpx_*": "1/2", "amd.com/qpx_*": "1/4", "amd.com/cpx_*": "1/8",
    # Names such as Ascend310P-2c, Ascend910.shared and mlu370.mim-2m.8gb are parts of a chip, of unknown size.
    "huawei.com/Ascend*-*": DEVICE, "huawei.com/Ascend*.*": DEVICE, "huawei.com/Ascend*": "1",
    "cambricon.com/mlu*.*": DEVICE, "cambricon.com/mlu-*": DEVICE, "cambricon.com/mlu[0-9]*": "1",
    **dict.fromkeys([f"cambricon.com/{name}" for name in ("mlu", "mlunum", "vmlu")], "1"),
}.items())  # fmt: skip
"""GPUs per unit by name or pattern; `None`: not a GPU. A name takes precedence over patterns, then the first pattern."""
_MIG: Final = re.compile(r"nvidia\.com/mig-(?:([1-7])c\.)?(([1-7])g\.[0-9]+gb)(?!.*shared).*", re.ASCII)
_SLICES: Final = 7
_FOUR_SLICES: Final = frozenset({"1g.6gb", "2g.12gb", "4g.24gb", "2g.48gb", "4g.96gb"})
"""Profiles of cards with four slices: A30, RTX PRO 6000. Its 1g.24gb has the same name as that of an H100 with 96 GB, a seventh."""
_MLU_MODEL: Final = re.compile(r"(cambricon\.com/mlu)[0-9]+(\.smlu\.)", re.ASCII)
"""Model in a resource name, which the device plugin adds with `--enable-device-type`."""

_PER_CENT_OF_EACH: Final = {
    NVIDIA: "nvidia.com/gpucores",
    "volcano.sh/vgpu-number": "volcano.sh/vgpu-cores",
    "hygon.com/dcunum": "hygon.com/dcucores",
    "metax-tech.com/sgpu": "metax-tech.com/vcore",
    "iluvatar.ai/vgpu": "iluvatar.ai/vcuda-core",
    **dict.fromkeys(["cambricon.com/vmlu", "cambricon.com/mlu"], "cambricon.com/mlu.smlu.vcore"),
}
"""By resource, the resource whose value is the usable share of each of its units."""
_THOUSANDTHS_OF_ALL: Final = {"gpu.intel.com/i915": "gpu.intel.com/millicores", "gpu.intel.com/xe": "gpu.intel.com/millicores"}
_SAME: Final = {f"{domain}/gpu-core": f"{domain}/gpu" for domain in _KOORDINATOR}
"""By resource, another resource with the same meaning; the larger value counts."""
_QUALIFIES: Final[dict[str, tuple[str, ...]]] = {
    **{f"nvidia.com/{name}": (NVIDIA,) for name in ("gpucores", "gpumem", "gpumem-percentage", "priority")},
    **{f"volcano.sh/{name}": ("volcano.sh/vgpu-number",) for name in ("vgpu-cores", "vgpu-memory", "vgpu-memory-percentage")},
    "volcano.sh/gpu-memory": ("volcano.sh/gpu-number",),
    **{f"hygon.com/{name}": ("hygon.com/dcunum",) for name in ("dcucores", "dcumem")},
    **{f"metax-tech.com/{name}": ("metax-tech.com/sgpu",) for name in ("vcore", "vmemory")},
    **{f"iluvatar.ai/vcuda-{name}": ("iluvatar.ai/vgpu",) for name in ("core", "memory")},
    **{f"cambricon.com/mlu.smlu.{name}": ("cambricon.com/vmlu", "cambricon.com/mlu") for name in ("vcore", "vmemory")},
    "cambricon.com/mlumem": ("cambricon.com/mlunum",),
    **{f"gpu.intel.com/{name}": ("gpu.intel.com/i915", "gpu.intel.com/xe") for name in ("millicores", "memory.max", "tiles")},
    **{
        f"{domain}/{name}": (f"{domain}/gpu-core", f"{domain}/gpu")
        for domain in _KOORDINATOR
        for name in ("gpu-memory", "gpu-memory-ratio", "gpu.shared")
    },
    "tencent.com/vcuda-memory": ("tencent.com/vcuda-core",),
}
"""By resource, the resources beside which it counts nothing; without any of them it is a resource of its own."""
_ON_CARDS: Final = ("aliyun.com/", "k8s.amazonaws.com/", "koordinator.sh/", "kubernetes.io/", "tencent.com/", "volcano.sh/")
"""Domains of node resources for cards that their device plugin offers too."""


class Accelerators:
    """Table of accelerators; rows of an operator take precedence."""

    __slots__ = ("_own", "_share")

    def __init__(self, rows: Mapping[str, str | float] | None = None) -> None:
        """Parse the rows of an operator.

        Raises:
            ValueError: a share is invalid (`read_share`).
        """
        self._own: Final = _rows((rows or {}).items())
        self._share: Final = lru_cache(1_000)(self._look_up)

    def share(self, name: str) -> Fraction | None:
        """Return the GPUs per unit of a resource; `None` if it is not a GPU."""
        return self._share(name) if "/" in name and len(name) <= _NAME else None

    def _look_up(self, name: str) -> Fraction | None:
        for rows in (self._own, _ROWS):
            for known in dict.fromkeys((name, name.removeprefix(DEVICE_CLASS))):
                row = known if known in rows else next((row for row in rows if "*" in row and fnmatchcase(known, row)), None)
                if row is not None:
                    return rows[row]
        profile = _MIG.fullmatch(name)
        if profile is None:
            return None
        return Fraction(int(profile[1] or profile[3]), 4 if profile[2] in _FOUR_SLICES else _SLICES)

    @staticmethod
    def qualified(amounts: Iterable[str]) -> bool:
        """Return true if one of the resources qualifies another, so that the GPUs of each container are counted separately."""
        return any(_plain(name) in _QUALIFIES or name in _SAME for name in amounts)

    def gpus(self, amounts: Mapping[str, int], per: int) -> dict[str, Fraction]:
        """Return the GPUs of a container or a node, by resource.

        Args:
            amounts: amounts of its resources.
            per: units per amount: 10⁹ for billionths.
        """
        found: dict[str, Fraction] = {}
        plain = {_plain(name): amount for name, amount in amounts.items()}
        for name, amount in amounts.items():
            share = self.share(name)
            if share is None or not amount:
                continue
            gpus = Fraction(amount, per) * share
            if each := plain.get(_PER_CENT_OF_EACH.get(name, "")):
                gpus *= min(Fraction(each, 100 * per), Fraction(1))
            elif whole := amounts.get(_THOUSANDTHS_OF_ALL.get(name, "")):
                gpus = Fraction(whole, 1000 * per)
            kind = _SAME.get(name, name)
            found[kind] = max(gpus, found.get(kind, gpus))
        return found

    def unmetered(self, amounts: Mapping[str, int]) -> dict[str, int]:
        """Return the extended resources that do not count as GPUs: devices, and those without a row."""
        return {
            name: amount
            for name, amount in amounts.items()
            if amount
            and "/" in name
            and self.share(name) is None
            and not any(amounts.get(counted) for counted in _QUALIFIES.get(_plain(name), ()))
        }

    def cards(self, amounts: Mapping[str, int], per: int) -> int:
        """Return the GPUs of a node, rounded up; a card that two resources offer counts once.

        Args:
            amounts: amounts of its resources.
            per: as in `gpus`.
        """
        own = Fraction(0)
        offered: dict[str, Fraction] = {}
        for name, gpus in self.gpus(amounts, per).items():
            domain = next((domain for domain in _ON_CARDS if name.startswith(domain)), None)
            if domain is None:
                own += gpus
            else:
                offered[domain] = max(gpus, offered.get(domain, gpus))
        most = max([own, *offered.values()])
        return -(-most.numerator // most.denominator)


def _plain(name: str) -> str:
    """Return the name of a resource without the model of its device: `mlu370.smlu.vcore` gives `mlu.smlu.vcore`."""
    return _MLU_MODEL.sub(r"\1\2", name) if name.startswith("cambricon.com/") else name


BUILT_IN: Final = Accelerators()
"""Table without rows of an operator."""
