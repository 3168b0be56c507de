"""GPU types as people, drivers and clouds write them, in one form that can be compared."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache, lru_cache

from navarch.catalogue.machines import all_machines

_PARTS = re.compile(r"[\s_,:/()-]+")
_TIMES = re.compile(r"(\d)\s*x\s+")
_AFTER_COLON = re.compile(r":([1-9]\d{0,3})$")
_COUNT = re.compile(r"(?:([1-9]\d{0,3})x|x([1-9]\d{0,3}))")
_COUNT_BEFORE = re.compile(r"([1-9]\d{0,3})x([a-z]+\d.*)")
_COUNT_AFTER = re.compile(r"([a-z]+\d+[a-z]*?)x([1-9]\d{0,3})")
_MEMORY = re.compile(r"(\d{2,3})gi?b?")
_BEFORE_UNIT = re.compile(r"(\d)\s+(?=gi?b\b)")
_FORM = re.compile(r"(sxm|pcie|nvl)\d?")
_WITHOUT_MEANING = re.compile(
    "nvidia|amd|tesla|instinct|geforce|quadro|gpus?|graphics|tensor|core|blackwell|server|edition|"
    r"se|generation|mega|nvl72|hbm\de?|"
    # GH200 480GB counts the memory of its CPU.
    "480gb"
)
_OTHER_NAMES = {"rtxa6000": "a6000"}
_MEMORY_MARGIN = 0.1
"""Clouds round differently: an L4 with 24 GB is also sold as one with 22."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuType:
    """A GPU model; with `gpus`, only machines with exactly that many."""

    chip: str
    form: str = ""
    """`sxm`, `pcie` or `nvl`; any if empty."""
    memory_gb: int = 0
    """Of each GPU; any if zero."""
    gpus: int | None = None
    instance_type: str = ""
    """A cloud's name for a machine, which matches only that machine."""

    def covers(self, model: str, gpus: int, instance_type: str = "") -> bool:
        """Return whether a machine with `gpus` GPUs of `model` matches.

        `h100` matches every H100, `h100-sxm` only those with SXM, `a100` also the one with 80 GB.
        """
        if self.instance_type and instance_type.lower() == self.instance_type:
            return True
        if not self.chip or (self.gpus is not None and gpus != self.gpus):
            return False
        offered = parse_words(model)
        return (
            offered.chip == self.chip
            # In the catalogue, models without a form have SXM.
            and self.form in ("", offered.form or "sxm")
            and (not self.memory_gb or any(map(self._is_as_large, _memory(offered))))
        )

    def _is_as_large(self, memory_gb: float) -> bool:
        return abs(memory_gb - self.memory_gb) <= _MEMORY_MARGIN * self.memory_gb


def parse_gpu_type(text: str) -> GpuType:
    """Return the GPU type that a text names.

    The name of a cloud for a machine means that machine, not others with the same GPUs.
    """
    name = text.strip().lower()
    if name in _cloud_names():
        return GpuType(chip="", instance_type=name)
    return replace(parse_words(text), instance_type=name)


@lru_cache(maxsize=4096)
def parse_words(text: str) -> GpuType:
    """Return the GPU type that the words of a text describe, also if it names a machine.

    `8xH100`, `h100-8x`, `h100:8` and `gpu_8x_h100` are the same, as are `NVIDIA H100 80GB HBM3`
    and `h100-80gb-sxm5`.
    """
    spaced = _BEFORE_UNIT.sub(r"\1", _TIMES.sub(r"\1x ", text.strip().lower()))
    spaced = _AFTER_COLON.sub(r" \1x", spaced)
    chip: list[str] = []
    found = GpuType(chip="")
    for part in filter(None, _PARTS.split(spaced)):
        gpus, rest = _count(part) if found.gpus is None else (None, part)
        if gpus is not None:
            found = replace(found, gpus=gpus)
        if form := _FORM.fullmatch(rest):
            found = replace(found, form=form[1])
        elif _WITHOUT_MEANING.fullmatch(rest):
            continue
        elif (memory := _MEMORY.fullmatch(rest)) and not found.memory_gb:
            found = replace(found, memory_gb=int(memory[1]))
        elif rest:
            chip.append(rest)
    name = "".join(chip)
    if name == "h100" and "hbm3" in spaced and not found.form:
        # As the driver calls it; it calls the others H100 PCIe and H100 NVL.
        found = replace(found, form="sxm")
    return replace(found, chip=_OTHER_NAMES.get(name, name))


def ambiguous_models(text: str, models: Iterable[str]) -> list[str]:
    """Return the models that a text may mean if it names none of them: `rtx` can be several."""
    wanted = parse_words(text).chip
    chips = {model: parse_words(model).chip for model in sorted(set(models)) if model}
    similar = [model for model, chip in chips.items() if wanted in chip]
    is_one = wanted in chips.values() or len({chips[model] for model in similar}) < 2
    return [] if is_one else similar


def _count(part: str) -> tuple[int | None, str]:
    """Return the number of GPUs in a part of a name, and what is left of the part."""
    if found := _COUNT.fullmatch(part):
        return int(found[1] or found[2]), ""
    if found := _COUNT_BEFORE.fullmatch(part):
        return int(found[1]), found[2]
    if found := _COUNT_AFTER.fullmatch(part):
        return int(found[2]), found[1]
    return None, part


def _memory(offered: GpuType) -> Iterable[float]:
    """Return the memory of an offered GPU, from the catalogue if its name does not say."""
    return (
        (offered.memory_gb,)
        if offered.memory_gb
        else _usual_memory().get((offered.chip, offered.form), ())
    )


@cache
def _usual_memory() -> dict[tuple[str, str], set[float]]:
    """Return the memory of the models of the catalogue whose name does not contain it."""
    found: dict[tuple[str, str], set[float]] = {}
    for machine in all_machines():
        model = parse_words(machine.gpu_model)
        if not model.memory_gb:
            found.setdefault((model.chip, model.form), set()).add(machine.gpu_memory_gib)
    return found


@cache
def _cloud_names() -> frozenset[str]:
    """Return the instance types of the catalogue that are not written like a GPU type."""
    names = {machine.instance_type.lower() for machine in all_machines()}
    return frozenset(name for name in names if not re.fullmatch(r"[a-z]+\d+-\d+x", name))
