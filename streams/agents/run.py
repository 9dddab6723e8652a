"""Import of agents by name, and running them until a signal arrives."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Final

from engine.effects.modules import MODULE_NAME, import_named
from engine.effects.receiver import describe
from engine.log.errors import LogUnavailableError
from engine.log.start import StartWait
from streams.agents.app import AgentApp
from streams.agents.declaration import Agent, Agents
from streams.agents.errors import AgentError, AgentModuleError
from streams.client import event_loop
from streams.client.connecting import administrator, client_of
from streams.client.metadata import fetch_merged
from streams.client.retry import retried
from streams.errors import TopicsMissingError, must_be_described, unavailable, unavailable_if
from streams.settings import KafkaSettings

_POLL_SECONDS: Final = 0.05
_QUIET: Final = {
    "faust": logging.WARNING,
    "mode": logging.WARNING,
    "mode.timers": logging.ERROR,
    "streams.agents.app": logging.WARNING,
    "streams.agents.transport": logging.WARNING,
}
"""Log levels for Faust: it is verbose, also under the names of classes derived here, and its timers report every slow commit."""
_log = logging.getLogger("lahar.agents")


def find(target: str) -> Agents:
    """Import a module, searched in the working directory first, and return its agents.

    Args:
        target: `MODULE:NAME` for an `Agents` object; `MODULE` for all agents in the module, under the module's name.

    Raises:
        AgentModuleError: the module does not exist, its import fails, or it has no agents.
        AgentError: an agent's declaration is invalid.
    """
    module, _, name = target.partition(":")
    if not MODULE_NAME.fullmatch(module) or (name and not name.isidentifier()):
        raise AgentModuleError(f"agents: {target!r} is no module; write my_platform.agents or my_platform.agents:app")
    try:
        found = import_named(module, Path.cwd())
    except AgentError:
        raise
    except Exception as error:  # the import runs third-party code, which may raise anything
        raise AgentModuleError(f"agents: module {module} cannot be imported: {describe(error)}") from error
    if not name:
        return _all_in(found)
    agents = getattr(found, name, None)
    if not isinstance(agents, Agents):
        raise AgentModuleError(f"agents: {target} is no `Agents`; leave `:{name}` out, or assign it: {name} = Agents('name', […])")
    return agents


def _all_in(module: ModuleType) -> Agents:
    declared = [value for value in vars(module).values() if isinstance(value, Agent)]
    if not declared:
        raise AgentModuleError(f"agents: module {module.__name__} declares no agent; put @agent(…) above a function")
    return Agents(module.__name__, declared)


def run(app: AgentApp, stopped: Callable[[], bool]) -> None:
    """Run agents until `stopped` returns true; then finish running calls and commit the offsets.

    Args:
        app: app of the agents.
        stopped: polled 20 times a second.

    Raises:
        LogUnavailableError: Kafka cannot be reached or lacks the topics (after `KAFKA_START_SECONDS`), denies reading them or
            joining the group, Faust failed, or another process has the same instance name.
    """
    for name, level in _QUIET.items():
        logging.getLogger(name).setLevel(level)
    event_loop.run(_run(app, stopped))


async def _run(app: AgentApp, stopped: Callable[[], bool]) -> None:
    checked = asyncio.ensure_future(_until_topics(app))
    while not (stopped() or checked.done()):
        await asyncio.wait({checked}, timeout=_POLL_SECONDS)
    if not checked.done():
        checked.cancel()
        await asyncio.wait({checked})
        return
    await checked
    life = asyncio.ensure_future(_live(app))
    refused: BaseException | None = None
    try:
        while not (stopped() or app.replaced or (refused := app.refused) or life.done()):
            await asyncio.wait({life}, timeout=_POLL_SECONDS)
        if not (app.replaced or refused or life.done()):
            await app.drain()
    finally:
        await app.stop()
        await asyncio.wait({life})
    if app.replaced:
        name = app.conf.consumer_group_instance_id
        raise LogUnavailableError(
            f"agents {app.conf.id}: another process was started as {name}; give each an --instance of its own"
        )
    if refused is not None:
        raise unavailable(f"agents {app.conf.id} receive nothing", refused)
    if (reason := life.exception() or app.crash_reason) is not None:
        raise LogUnavailableError(f"agents {app.conf.id}: {describe(reason)}") from reason
    _log.info("agents %s: stopped", app.conf.id)


async def _live(app: AgentApp) -> None:
    await app.start()
    _log.info("agents %s: running %s", app.conf.id, ", ".join(delivery.handler.name for delivery in app.deliveries))
    await app.wait_until_stopped()


async def _until_topics(app: AgentApp) -> None:
    """Wait until Kafka has the topics that the agents consume; it may be started after them."""
    start = StartWait(app.settings.start_seconds, lambda text: _log.warning("agents %s: %s", app.conf.id, text))
    while True:
        try:
            return await _must_have_topics(app)
        except LogUnavailableError as error:
            pause = start.pause(error)
        await asyncio.sleep(pause)


async def _must_have_topics(app: AgentApp) -> None:
    settings: KafkaSettings = app.settings
    with unavailable_if(f"{settings.where} cannot be reached"):
        async with administrator(settings) as admin:
            client, seconds = client_of(admin), settings.request_seconds
            # A broker may lack metadata of topics that were just created.
            metadata = await retried(lambda: fetch_merged(client, app.topics_read, seconds), seconds, client)
    must_be_described(sorted(metadata.refused), settings.where)
    if missing := [name for name in app.topics_read if name not in metadata.partitions]:
        raise TopicsMissingError(missing, settings.where)
