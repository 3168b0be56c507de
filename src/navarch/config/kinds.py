"""Kinds of value: how the value of a key is parsed, checked and rendered."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Generic, Protocol, TypeVar
from urllib.parse import urlsplit

from navarch.config.context import Refused, Scope, escape
from navarch.config.document import Entries, Items, Leaf, Tree, is_nothing
from navarch.config.errors import Place, did_you_mean, join_names
from navarch.config.secret import Secret
from navarch.core.access_token import TOKEN_CHARACTERS_MIN, TOKEN_REMEDY, too_short
from navarch.core.duration import parse_duration, render_duration
from navarch.core.errors import SecretError
from navarch.secrets.reference import parse_reference

T = TypeVar("T")
E = TypeVar("E", bound=StrEnum)


class Kind(Protocol[T]):
    """Parses one kind of value."""

    @property
    def noun(self) -> str:
        """The name of the kind in messages and documentation: `a duration`."""
        ...

    def read(self, node: Tree, scope: Scope) -> T:
        """Return the value, or record a problem in `scope` and raise Refused."""
        ...

    def plain(self, value: T) -> object:
        """Return the value as YAML writes it, with secrets masked."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """Text. Unquoted numbers are text as well; unquoted true and null are refused."""

    noun: str = "text"
    example: str = "name"
    check: Callable[[str], str | None] = lambda _: None
    """Returns the remedy for an invalid text, or None."""
    literal: bool = False
    """Keep `${...}` as written: it is meant for a shell on the node."""

    def read(self, node: Tree, scope: Scope) -> str:
        """Return the text."""
        leaf = scope.leaf(node, self.noun, self.example, literal=self.literal)
        if leaf.tag in ("bool", "null"):
            message = f"{scope.label} must be {self.noun}, not {_unquoted(leaf)}"
            raise scope.refuse(leaf, message, f'put quotes around it: "{leaf.shown}"')
        remedy = self.check(leaf.text)
        if remedy is not None:
            raise scope.refuse(
                leaf, f'{scope.label} must be {self.noun}, not "{leaf.shown}"', remedy
            )
        return leaf.text

    def plain(self, value: str) -> object:
        """Return it escaped, so that reading it again expands no variables."""
        return value if self.literal else escape(value)


class ScalarKind(Generic[T]):
    """A kind that the text and the tag of one scalar decide, and that YAML writes as it is."""

    __slots__ = ()
    noun: str
    example: str

    def parse(self, leaf: Leaf) -> T | None:
        """Return the value, or None if the scalar holds none of this kind."""
        raise NotImplementedError

    def read(self, node: Tree, scope: Scope) -> T:
        """Return the value, or record a problem in `scope` and raise Refused."""
        leaf = scope.leaf(node, self.noun, self.example)
        value = self.parse(leaf)
        if value is None:
            raise scope.wrong_type(leaf, self.noun, self.example)
        return value

    def plain(self, value: T) -> object:
        """Return it as it is."""
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Integer(ScalarKind[int]):
    """A whole number within bounds, in plain decimal notation."""

    least: int | None = None
    most: int = 1_000_000_000
    example: str = "10"

    @property
    def noun(self) -> str:  # type: ignore[override]
        """A whole number, with its bounds."""
        return "a whole number" + _bounds(self.least, self.most if self.most < 10**9 else None)

    def parse(self, leaf: Leaf) -> int | None:
        """Return the number."""
        if leaf.tag != "int" or not _DECIMAL.fullmatch(leaf.text):
            return None
        value = int(leaf.text.replace("_", ""))
        too_low = self.least is not None and value < self.least
        return None if too_low or value > self.most else value


@dataclass(frozen=True, slots=True, kw_only=True)
class Real(ScalarKind[float]):
    """A number within bounds."""

    least: float = 0.0
    most: float = 1e9
    example: str = "1.5"

    @property
    def noun(self) -> str:  # type: ignore[override]
        """A number, with its bounds."""
        return "a number" + _bounds(self.least, self.most if self.most < 1e9 else None)

    def parse(self, leaf: Leaf) -> float | None:
        """Return the number."""
        if leaf.tag not in ("int", "float") or not _REAL.fullmatch(leaf.text):
            return None
        value = float(leaf.text)
        return value if self.least <= value <= self.most else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Money(ScalarKind[Decimal]):
    """An amount per hour, exact."""

    noun: str = "an amount of money"
    example: str = "98.32"

    def parse(self, leaf: Leaf) -> Decimal | None:
        """Return the amount."""
        written = leaf.tag in ("int", "float") and _AMOUNT.fullmatch(leaf.text)
        return Decimal(leaf.text) if written else None

    def plain(self, value: Decimal) -> object:
        """Return a number."""
        return float(value) if value % 1 else int(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Boolean(ScalarKind[bool]):
    """True or false, and none of YAML's other words for them."""

    noun: str = "true or false"
    example: str = "true"

    def parse(self, leaf: Leaf) -> bool | None:
        """Return the boolean."""
        return {"true": True, "false": False}.get(leaf.text) if leaf.tag == "bool" else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Duration:
    """A duration, such as `1h30m` or `2d`."""

    zero: bool = False
    example: str = "1h30m"

    @property
    def noun(self) -> str:
        """A duration, and whether it may be zero."""
        return "a duration, zero or more" if self.zero else "a duration above zero"

    def read(self, node: Tree, scope: Scope) -> timedelta:
        """Return the duration."""
        leaf = scope.leaf(node, self.noun, self.example)
        value = None if leaf.tag == "null" else parse_duration(leaf.text)
        if value is None:
            remedy = f"{leaf.text}s" if leaf.tag == "int" and leaf.text.isdecimal() else ""
            raise scope.wrong_type(leaf, self.noun, remedy or self.example)
        if value < timedelta(0) or (not value and not self.zero):
            raise scope.wrong_type(leaf, self.noun, self.example)
        return value

    def plain(self, value: timedelta) -> object:
        """Return it in the notation it is read in."""
        return render_duration(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice(Generic[E]):
    """One of a few words."""

    options: type[E]
    unknown: str = ""
    """The start of the message for an unknown word, in place of the usual one."""

    @property
    def noun(self) -> str:
        """The words."""
        return join_names(option.value for option in self.options)

    def read(self, node: Tree, scope: Scope) -> E:
        """Return the word."""
        leaf = scope.leaf(node, self.noun, next(iter(self.options)).value)
        names = [option.value for option in self.options]
        if leaf.text in names and leaf.tag != "null":
            return self.options(leaf.text)
        message = f"{scope.label} must be {self.noun}, not {_unquoted(leaf)}"
        if self.unknown and leaf.tag != "null":
            message = f"{self.unknown}: {leaf.shown}"
        options = join_names(f'"{name}"' for name in names)
        raise scope.refuse(leaf, message, did_you_mean(leaf.text, names, f"write {options}"))

    def plain(self, value: E) -> object:
        """Return the word."""
        return value.value


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePath:
    """A path; a relative one starts from the folder of the configuration file."""

    noun: str = "a path"
    example: str = "./file.yaml"

    def read(self, node: Tree, scope: Scope) -> str:
        """Return the path, joined to the folder of the configuration file."""
        leaf = scope.leaf(node, self.noun, self.example)
        if leaf.tag in ("bool", "null") or not leaf.text or "\0" in leaf.text:
            raise scope.wrong_type(leaf, self.noun, self.example)
        return str(scope.context.resolve_path(leaf.text))

    def plain(self, value: str) -> object:
        """Return it escaped, so that reading it again expands no variables."""
        return escape(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretText:
    """A secret in the file, usually written as `${NAME}`."""

    noun: str = "a secret"
    spaces: bool = False
    """Whether spaces are allowed, as in a header."""
    least: int = 1
    """The fewest characters."""

    def read(self, node: Tree, scope: Scope) -> Secret:
        """Return the secret."""
        leaf = scope.leaf(node, self.noun, "${NAME}")
        if leaf.tag == "null":
            raise scope.wrong_type(leaf, self.noun, "${NAME}")
        return self.resolve(leaf.text, leaf, scope)

    def resolve(self, text: str, at: Tree | Place, scope: Scope) -> Secret:
        """Return the secret that `text` is, or that it refers to."""
        reference = parse_reference(text)
        if reference is None:
            return self.wrap(text, at, scope)
        try:
            found = scope.context.read_secret(reference, scope.context.environment)
        except SecretError as error:
            remedy = "correct the reference, or what this machine may read"
            raise scope.refuse(at, f"{scope.label}: {error}", remedy) from error
        return self.wrap(found, at, scope)

    def wrap(self, text: str, at: Tree | Place, scope: Scope) -> Secret:
        """Return the secret; refuse one that cannot be sent in a header."""
        if not text:
            raise scope.refuse(at, f"{scope.label} must not be empty", "leave the key out")
        allowed = text.isprintable() and (self.spaces or not re.search(r"\s", text))
        if not allowed or not text.isascii():
            message = f"{scope.label} holds a space or a character that cannot be sent"
            raise scope.refuse(at, message, "use letters, digits and punctuation")
        if len(text) < self.least:
            raise scope.refuse(at, f"{scope.label} {too_short(text)}", TOKEN_REMEDY)
        return Secret(text)

    def plain(self, value: Secret) -> object:
        """Return a mask."""
        return str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scalar(ScalarKind[str | int | float | bool]):
    """An argument of an extension: text, a number, true or false, as YAML infers it."""

    noun: str = "text, a number, true or false"
    example: str = "10"

    def parse(self, leaf: Leaf) -> str | int | float | bool | None:
        """Return the value."""
        if leaf.tag == "bool" and leaf.text in ("true", "false"):
            return leaf.text == "true"
        if leaf.tag == "int" and _DECIMAL.fullmatch(leaf.text):
            return int(leaf.text.replace("_", ""))
        if leaf.tag in ("int", "float") and _REAL.fullmatch(leaf.text):
            return float(leaf.text)
        return None if leaf.tag == "null" else leaf.text

    def plain(self, value: str | float | bool) -> object:
        """Return it escaped, so that reading it again expands no variables."""
        return escape(value) if isinstance(value, str) else value


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOf(Generic[T]):
    """A list of one kind."""

    each: Kind[T]
    empty: bool = True

    @property
    def noun(self) -> str:
        """A list, and the kind of its items."""
        return f"a list ({self.each.noun} each)"

    def read(self, node: Tree, scope: Scope) -> tuple[T, ...]:
        """Return the items, after recording the problems of all of them."""
        if is_nothing(node) and self.empty:
            return ()
        if not isinstance(node, Items):
            raise scope.wrong_type(node, "a list", "[one, two]")
        if not node.items and not self.empty:
            raise scope.refuse(node, f"{scope.label} must not be empty", "add an item")
        values: list[T] = []
        for index, item in enumerate(node.items):
            part = scope.within(f"{scope.label}[{index}]", home=item.place)
            try:
                values.append(self.each.read(item, part))
            except Refused:
                continue
        if len(values) < len(node.items):
            raise Refused(scope.label)
        return tuple(values)

    def plain(self, value: tuple[T, ...]) -> object:
        """Return a list."""
        return [self.each.plain(item) for item in value]


@dataclass(frozen=True, slots=True, kw_only=True)
class MapOf(Generic[T]):
    """Names, each with a value of one kind."""

    each: Kind[T]

    @property
    def noun(self) -> str:
        """A mapping, and the kind of its values."""
        return f"a mapping (name to {self.each.noun})"

    def read(self, node: Tree, scope: Scope) -> Mapping[str, T]:
        """Return the values by name, after recording the problems of all of them."""
        if is_nothing(node):
            return {}
        if not isinstance(node, Entries):
            raise scope.wrong_type(node, "a mapping", "{name: value}")
        values: dict[str, T] = {}
        for entry in node.entries:
            part = scope.within(f"{scope.label}.{entry.key.shown}", home=entry.key.place)
            try:
                values[entry.key.text] = self.each.read(entry.value, part)
            except Refused:
                continue
        if len(values) < len(node.entries):
            raise Refused(scope.label)
        return values

    def plain(self, value: Mapping[str, T]) -> object:
        """Return a mapping."""
        return {name: self.each.plain(each) for name, each in value.items()}


def url_remedy(text: str) -> str | None:
    """Return the remedy for a text that is not a URL, or None."""
    try:
        parts = urlsplit(text)
        good = parts.scheme in ("http", "https") and bool(parts.hostname)
        _ = parts.port
    except ValueError:
        good = False
    return None if good and " " not in text else "write http://host:port or https://host/path"


def address_remedy(text: str) -> str | None:
    """Return the remedy for a text that is not an address to listen on, or None."""
    found = _ADDRESS.fullmatch(text)
    if found is not None and int(found["port"]) <= 65535:
        return None
    return "write host:port, or :port for every interface"


def pattern(expression: re.Pattern[str], remedy: str) -> Callable[[str], str | None]:
    """Return a check of texts against an expression, with the remedy for those that differ."""
    return lambda text: None if expression.fullmatch(text) else remedy


name_remedy = pattern(
    re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,49}", re.ASCII),
    "use up to 50 letters, digits, dots, dashes and underscores, a letter or digit first",
)
_factory_remedy = pattern(
    re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*|[A-Za-z0-9][\w.-]{0,49}", re.ASCII),
    "write module:Class, or the name of an entry point of an installed package",
)

TEXT = Text()
FACTORY = Text(noun="a factory", example="my_package.buying:NightOwl", check=_factory_remedy)
SETTINGS = MapOf(each=Scalar())
NAME = Text(noun="a name", check=name_remedy)
URL = Text(noun="a URL", example="https://host/path", check=url_remedy)
ADDRESS = Text(noun="an address", example='":50051"', check=address_remedy)
COMMAND = Text(noun="a shell command", example="echo hello", literal=True)
BOOLEAN = Boolean()
PATH = FilePath()
SECRET = SecretText()
TOKEN = SecretText(noun="a token", least=TOKEN_CHARACTERS_MIN)
HEADER = SecretText(noun="a header's value", spaces=True)
MONEY = Money()
DURATION = Duration()
DURATION_OR_ZERO = Duration(zero=True)
COUNT = Integer(least=1)

_DECIMAL = re.compile(r"[-+]?(0|[1-9][0-9_]{0,17})", re.ASCII)
_REAL = re.compile(r"[-+]?[0-9]{1,17}(\.[0-9]{0,17})?", re.ASCII)
_AMOUNT = re.compile(r"[0-9]{1,9}(\.[0-9]{1,6})?", re.ASCII)
_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9._-]*):(?P<port>[0-9]{1,5})", re.ASCII)


def _bounds(least: float | None, most: float | None) -> str:
    if least is not None and most is not None:
        return f" from {least:.12g} to {most:.12g}"
    if least is not None:
        return f", {least:.12g} or more"
    return f", at most {most:.12g}" if most is not None else ""


def _unquoted(leaf: Leaf) -> str:
    return "nothing" if leaf.tag == "null" else f'"{leaf.shown}"'


def read_secret_file(kind: SecretText, node: Tree, scope: Scope) -> Secret:
    """Return the secret in the file that `node` names."""
    leaf = scope.leaf(node, "a path", "./token")
    if leaf.tag in ("bool", "null") or not leaf.text:
        raise scope.wrong_type(leaf, "a path", "./token")
    path = scope.context.resolve_path(leaf.text)
    try:
        found = scope.context.read_file(path)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        message = f"{scope.label}: cannot read {leaf.shown}: {reason}"
        remedy = "paths are relative to the configuration file"
        raise scope.refuse(leaf, message, remedy) from None
    if found.readable_by_others:
        message = f"{scope.label}: every user of this machine can read {leaf.shown}"
        scope.warn(leaf, message, f"chmod 600 {leaf.shown}")
    return kind.wrap(found.text.strip(), leaf, scope)
