"""Where the log is and what else may be set."""

import re
from fractions import Fraction

import pytest
from command_page import page

from engine.runtime.settings import Settings, duration, load_settings
from streams.settings import KafkaSettings


def write(tmp_path, text):
    (tmp_path / "lahar.toml").write_text(text, encoding="utf-8")
    return tmp_path


def test_the_option_wins_over_environment_over_file_over_default(tmp_path):
    assert load_settings(None, {}, tmp_path).log == "sqlite:./lahar.db"
    write(tmp_path, 'log = "sqlite:file.db"')
    assert load_settings(None, {}, tmp_path).log == "sqlite:file.db"
    assert load_settings(None, {"LAHAR_LOG": "sqlite:environment.db"}, tmp_path).log == "sqlite:environment.db"
    assert load_settings("memory:", {"LAHAR_LOG": "sqlite:environment.db"}, tmp_path).log == "memory:"


def test_a_file_may_set_everything(tmp_path):
    write(
        tmp_path,
        'cluster = "prod-1"\nforget_after = "2d"\norphan_wait = 90\ncallbacks = ["platform.callbacks"]\n'
        'log_format = "json"\nready_lag = "5m"\nmax_replicas = 500\nservices = ["Notebook"]',
    )
    assert load_settings("memory:", {}, tmp_path, tmp_path / "lahar.toml") == Settings.model_construct(
        log="memory:",
        cluster="prod-1",
        forget_after=2 * 86_400_000_000,
        orphan_wait=90_000_000,
        callbacks=("platform.callbacks",),
        log_format="json",
        ready_lag=300_000_000,
        max_replicas=500,
        services=("Notebook",),
        home=tmp_path,
    )


def test_the_environment_says_how_a_process_is_watched(tmp_path):
    write(tmp_path, 'log_format = "text"')
    found = load_settings(None, {"LAHAR_LOG_FORMAT": "json", "LAHAR_READY_LAG": "2m", "LAHAR_DECIDE_LIMIT": "90s"}, tmp_path)
    assert (found.log_format, found.ready_lag, found.decide_limit) == ("json", 120_000_000, 90_000_000)
    with pytest.raises(ValueError, match=r"LAHAR_LOG_FORMAT=xml: should be 'text' or 'json'"):
        load_settings(None, {"LAHAR_LOG_FORMAT": "xml"}, tmp_path)
    with pytest.raises(ValueError, match=r"LAHAR_READY_LAG=soon: "):
        load_settings(None, {"LAHAR_READY_LAG": "soon"}, tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("log = ", r"lahar\.toml: "),
        ('callback = ["a"]', r"lahar\.toml: callback: Extra inputs are not permitted; did you mean callbacks\?"),
        ('callbacks = "a"', r"lahar\.toml: callbacks: should be a list$"),
        ('forget_after = "30"', r"lahar\.toml: forget_after: '30' is not a duration"),
        ("forget_afterwards = 3", r"lahar\.toml: forget_afterwards: Extra inputs"),
        ('orphan_wait = "soon"', r"lahar\.toml: orphan_wait: .*soon"),
        ("orphan_wait = true", r"lahar\.toml: orphan_wait: .*True is not a length of time"),
        ("cluster = 5", r"lahar\.toml: cluster: "),
        ('log_format = "xml"', r"lahar\.toml: log_format: "),
    ],
)
def test_a_wrong_file_is_named_with_the_key(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        load_settings(None, {}, write(tmp_path, text))


@pytest.mark.parametrize("url", ["kafka://bob:hunter2@h:9092", " kafka:bob:hunter2@h", "KAFKA://bob:hunter2@h"])
def test_a_password_in_any_log_url_is_refused_and_not_repeated(tmp_path, url):
    for option, environment, text in ((url, {}, ""), (None, {"LAHAR_LOG": url}, ""), (None, {}, f'log = "{url}"')):
        with pytest.raises(ValueError, match="KAFKA_SASL_PASSWORD") as raised:
            load_settings(option, environment, write(tmp_path, text))
        assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize(
    ("value", "micros"),
    [(0, 0), (5, 5_000_000), ("30d", 2_592_000_000_000), ("1h30m", 5_400_000_000), ("250ms", 250_000), ("0", 0)],
)
def test_lengths_of_time(value, micros):
    assert duration(value) == micros


@pytest.mark.parametrize("value", [-1, "-5s", "5", "d", "1d12h", "", None, 1.5])
def test_what_is_no_length_of_time_is_refused(value):
    with pytest.raises(ValueError, match=r"length of time|duration|."):
        duration(value)


def test_the_file_that_is_named_is_the_only_one(tmp_path):
    own, work = tmp_path / "own", tmp_path / "work"
    for folder, text in ((own / "lahar", 'cluster = "user"\ncallbacks = ["mine"]'), (work, 'cluster = "here"\nlog = "memory:"')):
        folder.mkdir(parents=True)
        (folder / "lahar.toml").write_text(text, encoding="utf-8")
    environment = {"XDG_CONFIG_HOME": str(own)}
    merged = load_settings(None, environment, work)
    assert (merged.cluster, merged.log, merged.callbacks, merged.home) == ("here", "memory:", ("mine",), own / "lahar")
    named = tmp_path / "named.toml"
    named.write_text('callbacks = ["theirs"]', encoding="utf-8")
    for found in (
        load_settings(None, environment, work, named),
        load_settings(None, environment | {"LAHAR_CONFIG": str(named)}, work),
    ):
        assert (found.cluster, found.log, found.callbacks, found.home) == ("default", "sqlite:./lahar.db", ("theirs",), tmp_path)
    assert load_settings(None, {"HOME": str(tmp_path)}, work).callbacks == ()


@pytest.mark.parametrize("environment", [{"XDG_CONFIG_HOME": "."}, {"HOME": "."}, {"HOME": "mine"}])
def test_a_folder_below_the_working_directory_is_nobodys_own(tmp_path, monkeypatch, environment):
    monkeypatch.chdir(tmp_path)
    for folder in ("lahar", ".config/lahar", "mine/.config/lahar"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "lahar.toml").write_text('callbacks = ["evil"]', encoding="utf-8")
    assert load_settings(None, environment, tmp_path).callbacks == ()


def test_a_file_of_the_working_directory_names_no_code(tmp_path):
    found = load_settings(None, {}, write(tmp_path, 'cluster = "here"\ncallbacks = ["evil"]'))
    assert (found.cluster, found.callbacks, found.home, found.untrusted_callbacks) == ("here", (), None, True)
    assert load_settings(None, {"LAHAR_CONFIG": str(tmp_path / "lahar.toml")}, tmp_path).callbacks == ("evil",)


@pytest.mark.parametrize(
    ("variable", "log"),
    [
        ("KAFKA_SASL_PASSWORD", "kafka://elsewhere:9092"),
        ("kafka_sasl_password", "kafka://elsewhere:9092"),
        ("KAFKA_SASL_USERNAME", "kafka://a:9092,elsewhere:9092/"),
        ("KAFKA_SASL_TOKEN_PROVIDER", "kafka://elsewhere"),
        ("KAFKA_SSL_CERTFILE", "kafka://elsewhere"),
        ("KAFKA_SSL_KEYFILE", "kafka://elsewhere"),
        ("KAFKA_SSL_KEYFILE_PASSWORD", "kafka://elsewhere"),
        ("KAFKA_SASL_PASSWORD", "kafka://"),
    ],
)
def test_credentials_go_to_no_host_named_only_in_the_working_directory(tmp_path, variable, log):
    work = write(tmp_path, f'log = "{log}"')
    with pytest.raises(
        ValueError, match=r"^\./lahar\.toml: log = 'kafka://.*--log URL, LAHAR_LOG=URL or --config lahar\.toml"
    ) as raised:
        load_settings(None, {variable: "secret"}, work)
    assert variable.upper() in str(raised.value)
    assert "secret" not in str(raised.value)
    for option, named, config in (
        (log, {}, None),
        (None, {"LAHAR_LOG": log}, None),
        (None, {"LAHAR_CONFIG": str(work / "lahar.toml")}, None),
        (None, {}, work / "lahar.toml"),
    ):
        assert load_settings(option, {variable: "secret"} | named, work, config).log == log


def test_a_working_directory_file_may_name_a_host_sent_no_credentials(tmp_path):
    work = write(tmp_path, 'log = "kafka://elsewhere:9092"')
    secret = {"KAFKA_SASL_PASSWORD": "secret"}
    assert load_settings("memory:", secret, work).log == "memory:"
    plain = {"KAFKA_SECURITY_PROTOCOL": "SASL_SSL", "KAFKA_SSL_CAFILE": "ca.pem", "KAFKA_SASL_PASSWORD": ""}
    assert load_settings(None, plain, work).log == "kafka://elsewhere:9092"
    own = write(tmp_path, 'log = "kafka://"')
    assert load_settings(None, secret | {"KAFKA_BOOTSTRAP_SERVERS": "mine:9092"}, own).log == "kafka://"
    assert load_settings(None, secret, write(tmp_path, 'log = "sqlite:file.db"')).log == "sqlite:file.db"
    named = write(tmp_path, 'log = "kafka://a:9092,b:9092"')
    servers = {"KAFKA_BOOTSTRAP_SERVERS": "b:9092, a:9092, c:9092"}
    assert load_settings(None, secret | servers, named).log == "kafka://a:9092,b:9092"
    with pytest.raises(ValueError, match="to a host that only this file"):
        load_settings(None, secret | {"KAFKA_BOOTSTRAP_SERVERS": "a:9092"}, named)


def test_the_users_own_configuration_is_trusted_in_its_own_folder_too(tmp_path):
    home = tmp_path / "lahar"
    home.mkdir()
    write(home, 'log = "kafka://mine:9092"\ncallbacks = ["mine"]')
    found = load_settings(None, {"XDG_CONFIG_HOME": str(tmp_path), "KAFKA_SASL_PASSWORD": "secret"}, home)
    assert (found.log, found.callbacks, found.untrusted_callbacks) == ("kafka://mine:9092", ("mine",), False)


def test_a_host_that_the_users_configuration_also_names_is_trusted(tmp_path):
    own, work = tmp_path / "lahar", tmp_path / "work"
    for folder in (own, work):
        folder.mkdir()
        write(folder, 'log = "kafka://mine:9092"')
    found = load_settings(None, {"XDG_CONFIG_HOME": str(tmp_path), "KAFKA_SASL_PASSWORD": "secret"}, work)
    assert found.log == "kafka://mine:9092"


def test_every_key_is_documented():
    assert set(re.findall(r"(?m)^\| `(\w+)` \| `.*` \| ", page())) == set(Settings.model_fields) - {"home", "untrusted_callbacks"}


def test_every_kafka_setting_that_proves_identity_is_a_credential(tmp_path):
    """The others may be set while a file of the working directory names the host."""
    work = write(tmp_path, 'log = "kafka://elsewhere:9092"')
    harmless = set()
    for name in KafkaSettings.model_fields:
        try:
            load_settings(None, {f"KAFKA_{name.upper()}": "x"}, work)
        except ValueError:
            continue
        harmless.add(name)
    assert harmless == {
        "bootstrap_servers",
        "client_id",
        "compression",
        "delivery_seconds",
        "request_seconds",
        "sasl_mechanism",
        "security_protocol",
        "session_seconds",
        "start_seconds",
        "ssl_cafile",
        "ssl_check_hostname",
        "topic_prefix",
        "transaction_seconds",
    }


def test_a_named_file_that_is_missing_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"absent\.toml"):
        load_settings(None, {}, tmp_path, tmp_path / "absent.toml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = " + "[" * 30_000, r"lahar\.toml: "),
        ("#" * 70_000, r"lahar\.toml: has more than 65,536 bytes"),
        ("a." * 20_000 + "a = 1", r"lahar\.toml: line 1 has more than 200 dots"),
        ('log = "memory:"\n[' + "a." * 20_000 + "a]", r"lahar\.toml: line 2 has more than 200 dots"),
        ("max_replicas = 0", r"lahar\.toml: max_replicas: "),
        ('services = "Notebook"', r"lahar\.toml: services: "),
        ('home = "/tmp"', r"lahar\.toml: home: Extra inputs"),
    ],
)
def test_a_hostile_file_is_an_error_of_one_line(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        load_settings(None, {}, write(tmp_path, text))


def test_an_operator_says_how_many_gpus_a_unit_of_a_resource_is(tmp_path):
    write(tmp_path, '[accelerators]\n"nvidia.com/gpu.shared" = "1/4"\n"example.com/*" = 0.5\n"amd.com/gpu" = "device"')
    share = load_settings(None, {}, tmp_path).accelerators.share
    names = ("nvidia.com/gpu.shared", "example.com/npu", "amd.com/gpu", "nvidia.com/gpu")
    assert [share(name) for name in names] == [Fraction(1, 4), Fraction(1, 2), None, 1]


@pytest.mark.parametrize("table", ['accelerators = "all"', "[accelerators]\na = []", '[accelerators]\n"a/b" = "some"'])
def test_a_table_of_accelerators_with_a_fault_is_refused_with_its_place(tmp_path, table):
    write(tmp_path, table)
    with pytest.raises(ValueError, match=r"lahar\.toml: accelerators"):
        load_settings(None, {}, tmp_path)
