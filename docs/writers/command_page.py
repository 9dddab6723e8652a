"""The page about the command, written from the commands themselves."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import cleandoc
from typing import TYPE_CHECKING, Any, Final

import typer
from rich.text import Text

from engine.cli.app import app
from engine.cli.help import examples_of

if TYPE_CHECKING:
    from typer._click import Command  # private: for annotations alone

_HEAD: Final = """\
# The command

*Written from `engine/cli/` by `make docs`; edit that, not this page.*

`lahar COMMAND --help` shows the same in a terminal, `lahar --install-completion` teaches the shell to complete commands, options,
jobs and event types.

## What all commands have in common

- Where the log is: `--log URL`, else `LAHAR_LOG`, else `log` in `lahar.toml`, else `sqlite:./lahar.db`. `sqlite:PATH` is a file,
  `memory:` is kept nowhere, `kafka://HOST:PORT` is on Kafka ([kafka.md](kafka.md)). `--log` and `--json` may stand before or after
  the command's name.
- Answers go to standard output; progress, warnings and errors to standard error. With `--json`, which every command takes, an
  answer is one JSON object a line.
- An error is one line that says where it is and what to do. `LAHAR_DEBUG=1` shows tracebacks.
- `apply`, `ingest`, `import-trace` and `job submit|command|raise|unpark` append to the log and then process it until nothing is
  left to do, unless `--no-process` is given or a live `lahar run` does. On Kafka they only append, with or without
  `--no-process`, and the workers process.
- What a command only appends, others process later. Its code 0 says that it was appended; jobs that were rejected and commands that
  were refused are shown by `lahar events --type 'lahar.job.rejected*' --type 'lahar.command.refused*'`.
- JOB is a job's id, a unique prefix of it, `namespace/name` (the newest of that name) or `namespace/name@id`.
- TIME is `now`, `today`, `yesterday 14:05`, `14:05`, `2026-03-01`, `2026-03-01 14:05`, RFC 3339 (`2026-03-01T12:00:00.5+02:00`),
  `-2h`, `1d12h`, `2 hours ago`, `+30m`, `@1777640700`, or a time and its zone, `2026-03-01 14:05 Europe/Berlin`. A date alone is
  its first moment; a day in a length has 24 hours. A clock time that a change to summer time skips, or that occurs twice,
  is refused.
- `--tz ZONE` (an IANA name), or `LAHAR_TZ`, is the zone of times without an offset, and in which people are shown times; UTC unless
  given. It may stand before or after the command's name. JSON is always UTC.
- A misspelt phase, reason, action or type of events ends with code 2 and the nearest name. Queues, tenants and other names that
  users choose select nothing if there are none.

## Exit codes

| code | meaning |
|---|---|
| 0 | done |
| 1 | a finding: a check failed, two things differ, some of the input could not be read and the rest was taken |
| 2 | bad input: an option, a file, a value, a closed or full output; where processed at once, a rejected job, a refused command |
| 3 | not found: a job, an event, a queue |
| 4 | the log is unavailable, damaged, locked by another process or taken over by one |
| 70 | a defect of Lahar |
| 130 | interrupted |

## lahar.toml

`--config FILE` (before the command) or `LAHAR_CONFIG` names the configuration file, and no other is read then. Where none is named,
`lahar.toml` is read from `/etc/lahar`, from `~/.config/lahar` (or `$XDG_CONFIG_HOME/lahar`) and from the working directory; the
later ones win key by key. No code is loaded because of a file that merely lies in the working directory: its `callbacks` are left
out, with a warning. Nor are credentials sent because of it: while a login to Kafka stands in the environment
(`KAFKA_SASL_USERNAME`, `KAFKA_SASL_PASSWORD`, `KAFKA_SASL_TOKEN_PROVIDER`, `KAFKA_SSL_CERTFILE`, `KAFKA_SSL_KEYFILE`), a `log` with
hosts that this file alone names ends the command with code 2; `--log`, `LAHAR_LOG` or `--config` say that you trust them. All else
that it sets counts (another `log`, `cluster`, bounds), so read it before you run commands in a folder that is not yours. Every key
may be left out.

| key | default | meaning |
|---|---|---|
| `log` | `"sqlite:./lahar.db"` | the log |
| `cluster` | `"default"` | cluster of what is appended without one |
| `forget_after` | `"30d"` | how long after its end a job stays in the state (aborted: 335 days more); history stays for good |
| `orphan_wait` | `"60s"` | how long a pod waits for the unknown managed job that it names, or for the pod that controls it |
| `max_replicas` | `20000` | how many replicas a job may have, all tasks together; beyond, it is rejected |
| `services` | `[]` | [kinds of services](kubernetes-objects.md#owners-above-the-controller-and-tasks), beside Kubernetes' own |
| `callbacks` | `[]` | modules whose callbacks are told what happens, looked for beside the file first |
| `log_format` | `"text"` | how processes that go on write their logs: `text` or `json`; `LAHAR_LOG_FORMAT` wins |
| `ready_lag` | `"60s"` | how long an input may wait in a process that is ready (`/readyz`); `LAHAR_READY_LAG` wins |
| `decide_limit` | `"60s"` | processor time that deciding one input or timer may take; `LAHAR_DECIDE_LIMIT` wins |
| `scheduling` | `true` | run the scheduling stage as well ([scheduling.md](scheduling.md)); `LAHAR_SCHEDULING` wins |
| `scheduler_config` | `(Volcano's default)` | [its rules](scheduling.md#configuration); `LAHAR_SCHEDULER_CONFIG` wins |
| `accelerators` | `(Lahar's table)` | resource = GPUs of a unit: [its table](kubernetes-objects.md#accelerators) |
| `billing` | `true` | run the billing stage as well ([billing.md](billing.md)); `LAHAR_BILLING` wins (`0` turns it off) |
"""

_COMMON: Final = frozenset({"log", "as_json"})
"""Options that the page describes once."""


def page() -> str:
    """Return the page as Markdown."""
    root: Any = typer.main.get_command(app)
    sections = ["\n".join(_section(path, command)) for path, command in _commands(root, ("lahar",))]
    return "\n".join([_HEAD, *sections])


def _commands(group: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Command]]:  # noqa: ANN401 - of typer's own click
    with typer.Context(group, info_name=path[-1]) as context:
        names = group.list_commands(context)
    for name in names:
        command = group.commands[name]
        if hasattr(command, "commands"):
            yield from _commands(command, (*path, name))
        else:
            yield (*path, name), command


def _section(path: tuple[str, ...], command: Any) -> Iterator[str]:  # noqa: ANN401 - as above
    with typer.Context(command, info_name=path[-1]) as context:
        pieces = [piece for piece in command.collect_usage_pieces(context) if piece != "[OPTIONS]"]
        yield f"## {' '.join(path)}\n"
        yield f"`{' '.join((*path, *pieces))}`\n".replace("{", "").replace("}", "")
        yield Text.from_markup(cleandoc(command.help)).plain + "\n"
        parameters = [parameter for parameter in command.params if parameter.name not in _COMMON]
        if parameters:
            yield "| | |\n|---|---|"
        for parameter in parameters:
            yield f"| {_cell(_names(parameter))} | {_cell(parameter.help)}{_default(parameter)} |"
    if parameters:
        yield ""
    if examples := examples_of(command.epilog):
        # Not `console`: tests play the commands of such blocks.
        yield "```text"
        yield from examples
        yield "```\n"


def _names(parameter: Any) -> str:  # noqa: ANN401 - as above
    if parameter.param_type_name == "argument":
        return f"`{parameter.display_name_raw}`"
    value = parameter.metavar
    if value is None and not parameter.is_flag:
        value = "|".join(parameter.type_descriptor.choices or ()) or parameter.name.upper()
    return ", ".join(f"`{name}{f' {value}' if value else ''}`" for name in parameter.opts)


def _default(parameter: Any) -> str:  # noqa: ANN401 - as above
    default = parameter.default
    return "" if parameter.required or default in (None, "", False, []) else f" Default: `{default}`."


def _cell(text: str) -> str:
    return text.replace("|", r"\|")
