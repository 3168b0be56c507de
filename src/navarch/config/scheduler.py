"""The `scheduler` block: queues, plugins and time limits of the job scheduler."""

from collections.abc import Iterator, Mapping

from navarch.config.block import Named, Nested, NestedOrName
from navarch.config.errors import did_you_mean
from navarch.config.kinds import NAME, SETTINGS, TEXT, Integer, ListOf, Real
from navarch.config.schema import Fault, block, copied, key
from navarch.core.job import Queue


@block()
class QueueConfig:
    """A queue of jobs. Child queues share the resources of their parent."""

    name: str
    parent: str | None = key(TEXT, "the parent queue", default=None)
    priority: int = key(Integer(least=0, most=1_000_000), "higher goes first", default=100)
    quota: float = key(Real(), "the number of GPUs it is guaranteed", default=0.0)
    limit: float | None = key(Real(), "the largest number of GPUs it can use", default=None)
    weight: float = key(Real(), "its share of the GPUs beyond all quotas", default=1.0)


@block()
class PluginConfig:
    """A plugin of the scheduler. The file may hold just its name."""

    name: str = key(NAME, "its name, as listed by `navarch sched plugins`")
    arguments: Mapping[str, str | int | float | bool] = key(
        SETTINGS, "its arguments, by name", default_factory=dict
    )


PLUGIN = NestedOrName(cls=PluginConfig, noun="a name, or a mapping", main="name", kind=NAME)


def unknown_parents(queues: Mapping[str, QueueConfig]) -> Iterator[Fault]:
    """Yield a fault for every queue with an unknown parent, or with itself as an ancestor."""
    for name, queue in queues.items():
        if queue.parent is None:
            continue
        if queue.parent not in queues:
            yield Fault(
                f'unknown queue "{queue.parent}"',
                did_you_mean(queue.parent, queues, f"configured: {', '.join(queues)}"),
                at=("queues", name, "parent"),
            )
        elif name in _ancestors(queues, queue.parent):
            yield Fault(
                f'queue "{name}" is its own parent',
                "leave parent out for a top-level queue",
                at=("queues", name, "parent"),
            )


def _ancestors(queues: Mapping[str, QueueConfig], name: str) -> set[str]:
    """Return a queue and all of its ancestors."""
    found: set[str] = set()
    above: str | None = name
    while above is not None and above in queues and above not in found:
        found.add(above)
        above = queues[above].parent
    return found


def plugins_exist(plugins: tuple[PluginConfig, ...]) -> Iterator[Fault]:
    """Yield a fault for every plugin that cannot be built."""
    yield from _plugin_faults("plugins", plugins)


def _more_plugins_are_valid(
    plugins: tuple[PluginConfig, ...], more_plugins: tuple[PluginConfig, ...]
) -> Iterator[Fault]:
    yield from _plugin_faults("more_plugins", more_plugins)
    if plugins and more_plugins:
        yield Fault(
            "more_plugins extends the default plugins, but plugins replaces them",
            "list them all under plugins",
            at=("more_plugins",),
        )


def _plugin_faults(listed_as: str, plugins: tuple[PluginConfig, ...]) -> Iterator[Fault]:
    seen: set[str] = set()
    for index, plugin in enumerate(plugins):
        wrong = f"{plugin.name} is listed twice" if plugin.name in seen else _plugin_error(plugin)
        seen.add(plugin.name)
        if wrong:
            yield Fault(
                wrong,
                "`navarch sched plugins` lists plugins and their arguments",
                at=(listed_as, index),
            )


def _plugin_error(plugin: PluginConfig) -> str:
    # Imported only if a file names plugins: a light install has no scheduler.
    from navarch.core.errors import InvalidError
    from navarch.scheduler.plugins import built_in_plugins

    try:
        built_in_plugins().build(plugin.name, plugin.arguments)
    except InvalidError as error:
        return str(error)
    return ""


@block(rules=(unknown_parents, plugins_exist, _more_plugins_are_valid))
class SchedulerConfig:
    """How jobs are placed on nodes."""

    queues: Mapping[str, QueueConfig] = key(
        Named(subject="queue", each=Nested(cls=QueueConfig)),
        "the queues, by name; one without limits, named `default`, if left out",
        default_factory=dict,
    )
    plugins: tuple[PluginConfig, ...] = key(
        ListOf(each=PLUGIN), "the plugins, in order, instead of the default ones", default=()
    )
    more_plugins: tuple[PluginConfig, ...] = key(
        ListOf(each=PLUGIN),
        "plugins that run before the default ones, such as `ageing` or `reservation`",
        default=(),
    )
    simulations_per_action: int | None = key(
        Integer(least=1),
        "how many sets of victims an action may simulate before it gives up",
        default=None,
    )
    seconds_per_action: float | None = key(
        Real(least=0.001),
        "how long an action may search for room and victims before it gives up",
        default=5.0,
    )


def to_queue(config: QueueConfig) -> Queue:
    """Return a queue as the scheduler uses it."""
    return copied(Queue, config)
