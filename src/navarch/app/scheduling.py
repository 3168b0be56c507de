"""How a configuration has the fleet's own jobs scheduled."""

from collections.abc import Iterable

from navarch.config import scheduler as written
from navarch.config.scheduler import to_queue
from navarch.fleet.jobs.scheduling import Scheduling
from navarch.scheduler.config import OWN_PLUGINS, Parameters, PluginConfig, SchedulerConfig


def to_scheduling(config: written.SchedulerConfig) -> Scheduling:
    """Return how jobs are scheduled. A list of plugins always wins over the usual one."""
    more = _listed(config.more_plugins)
    named = {plugin.name for plugin in more}
    usual = [plugin for plugin in OWN_PLUGINS if plugin.name not in named]
    return Scheduling(
        queues={name: to_queue(queue) for name, queue in config.queues.items()},
        config=SchedulerConfig(
            plugins=_listed(config.plugins) or (*more, *usual),
            parameters=Parameters(
                simulations_per_action=config.simulations_per_action,
                seconds_per_action=config.seconds_per_action,
            ),
        ),
    )


def placing_config(plugins: Iterable[written.PluginConfig]) -> SchedulerConfig:
    """Return how jobs are placed: by the plugins that are listed, by the usual ones if none is."""
    return SchedulerConfig(plugins=_listed(plugins) or OWN_PLUGINS)


def _listed(plugins: Iterable[written.PluginConfig]) -> tuple[PluginConfig, ...]:
    return tuple(PluginConfig(name=plugin.name, arguments=plugin.arguments) for plugin in plugins)
