"""The pages of the documentation, their code blocks and their links."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>\S*)\n(?P<text>.*?)^ *```$", re.MULTILINE | re.DOTALL
)
NAMED = re.compile(
    r"^<!-- file: (?P<name>\S+) -->\n(?P<block>```.*?^```$)", re.MULTILINE | re.DOTALL
)
HIDDEN = re.compile(r"^<!-- run: (?P<text>.*?) -->$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    """One block of code, or a command in a comment that prepares the next one."""

    page: str
    line: int
    language: str
    text: str

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[Path]:
    """Return every page of the repository, by path."""
    found = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SCOPE.md", "CHANGELOG.md")]
    for folder in ("docs", "deploy", "examples"):
        found += sorted((ROOT / folder).rglob("*.md"))
    return found


def page_name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[Block]:
    """Return the blocks of a page in order.

    `<!-- run: COMMAND -->` is a block that readers do not see: it prepares what the next one needs.
    """
    return [block for block, _ in _in_order(page)]


def prose(page: Path) -> str:
    """Return the text of a page without its code blocks and comments."""
    text = FENCE.sub("", page.read_text("utf-8"))
    return re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)


def files(page: Path) -> dict[str, str]:
    """Return the files that a page shows, by the name in the comment above each."""
    text = page.read_text("utf-8")
    return {m["name"]: FENCE.sub(r"\g<text>", m["block"]) for m in NAMED.finditer(text)}


def all_blocks(*languages: str) -> Iterator[Block]:
    for page in pages():
        for block in blocks(page):
            if block.language in languages:
                yield block


def _in_order(page: Path) -> list[tuple[Block, int]]:
    text, name, found = page.read_text("utf-8"), page_name(page), []
    for match in FENCE.finditer(text):
        indent = match["indent"]
        lines = [line.removeprefix(indent) for line in match["text"].splitlines(keepends=True)]
        found.append((_block(name, text, match, match["language"], "".join(lines)), match.start()))
    found += [
        (_block(name, text, match, "hidden", match["text"]), match.start())
        for match in HIDDEN.finditer(text)
    ]
    return sorted(found, key=lambda each: each[1])


def _block(page: str, text: str, match: re.Match[str], language: str, code: str) -> Block:
    return Block(page, text.count("\n", 0, match.start()) + 1, language, code)
