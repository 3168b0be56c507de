"""Builds autoscalers from the settings that are stored with a pool."""

from navarch.autoscale.predictive import Predictive
from navarch.autoscale.strategies import Composite, CostAware, Queue, Reactive, Scheduled
from navarch.core.autoscaling import (
    Autoscaling,
    CompositeSettings,
    CostAwareSettings,
    PredictiveSettings,
    QueueSettings,
    ReactiveSettings,
    Schedule,
    ScheduledSettings,
)
from navarch.ports.autoscaler import Autoscaler


def build_autoscaler(autoscaling: Autoscaling) -> Autoscaler:
    """Return the autoscaler with these settings, including its fallbacks and members."""
    match autoscaling.settings:
        case ReactiveSettings() as settings:
            return Reactive(settings=settings)
        case QueueSettings() as settings:
            return Queue(settings=settings)
        case ScheduledSettings(windows=windows, time_zone=zone, fallback=fallback):
            schedule = Schedule(windows=windows, time_zone=zone)
            return Scheduled(schedule=schedule, fallback=_build_optional(fallback))
        case PredictiveSettings(fallback=fallback) as settings:
            return Predictive(settings=settings, fallback=_build_optional(fallback))
        case CompositeSettings(members=members, mode=mode):
            return Composite(members=[build_autoscaler(each) for each in members], mode=mode)
        case CostAwareSettings() as settings:
            return CostAware(settings=settings)


def _build_optional(autoscaling: Autoscaling | None) -> Autoscaler | None:
    return None if autoscaling is None else build_autoscaler(autoscaling)
