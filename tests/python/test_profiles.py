"""Calibration profiles and what they are found by: reading, checking against the table, writing, machine and file system."""

import tomllib
from pathlib import Path

import pytest
from penstock import machine, model, paths, profiles
from penstock.failure import Failure

HEAD = '[profile]\nversion = 1\nname = "mine"\nbased_on = "hdd"\n'


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path / "penstock/profiles"


def test_a_device_that_the_library_pretends_has_a_profile_of_its_own():
    """As file/profiles.cpp makes it of PENSTOCK_EMULATE."""
    hdd = profiles.load("emulated hdd")
    assert hdd.figures["file.cached"] == 0 and "pretends" in hdd.said()
    for section in ("storage.read", "storage.write"):
        assert hdd.figures[f"{section}.device_random_call"] == pytest.approx(8e-3)
        assert hdd.figures[f"{section}.device_per_byte"] == pytest.approx(1 / 120e6)
        assert hdd.figures[f"{section}.device_ranks"] == pytest.approx(1.2), "150 in a second, of 8 ms each"
        assert hdd.figures[f"{section}.device_streams"] == 1
    assert profiles.load("emulated nvm").figures["storage.read.device_ranks"] > 1e4
    with pytest.raises(Failure, match="emulated tape"):
        profiles.load("emulated tape")


def test_fields_of_the_table_are_named_once_and_permit_what_is_built_in():
    keys = [one.key for one in profiles.fields()]
    assert len(keys) == len(set(keys)) > 20
    for one in profiles.fields():
        assert set(one.built_in) == set(profiles.built_in_names())
        assert all(value >= one.minimum for value in one.built_in.values())


def test_what_a_profile_leaves_out_is_that_of_the_built_in_one():
    found = profiles.parse(HEAD + "[network.inside]\nstartup = 2e-6\n", "p")
    assert found.figures == profiles.built_in("hdd").figures | {"network.inside.startup": 2e-6}
    assert found.own == {"network.inside.startup"} and found.measured and "built-in profile hdd" in found.said()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", r"expected a section \[profile\]"),
        ("[profile]\nversion = 2\n", "version = 1"),
        ("profile = 3\n", r"expected a section \[profile\]"),
        ('[profile]\nversion = 1\nbased_on = "floppy"\n', "floppy"),
        (HEAD + "[network.inside]\nstart = 1\n", "network.inside.start is no number"),
        (HEAD + "[network.inside]\nstartup = -1\n", "at least 0"),
        (HEAD + "[network.inside]\nstartup = inf\n", "finite"),
        (HEAD + "[network.inside]\nstartup = nan\n", "finite"),
        (HEAD + "[network.inside]\nstartup = true\n", "True"),
        (HEAD + '[network.inside]\nstartup = "fast"\n', "fast"),
        (HEAD + "[network]\ninside = 3\n", "network.inside is no number"),
        ("[profile\n", "expected TOML"),
        (HEAD + "[network.inside]\nstartup = 1" + "0" * 400 + "\n", "network.inside.startup = 1.* finite"),
        (HEAD + "[network.inside]\nstartup = 1" + "0" * 9000 + "\n", "expected TOML"),
        (HEAD + "a = " + "[" * 20000, "nested too deeply"),
        (HEAD + "[" + "a." * 20000 + "a]\nb = 1\n", "nested too deeply"),
        ("[profile]\nversion = true\n", "version = 1"),
        ("[profile]\nversion = 1\nbased_on = [1]\n", "based_on"),
    ],
)
def test_what_is_no_profile(text, expected):
    with pytest.raises(Failure, match=expected):
        profiles.parse(text, "p")


@pytest.mark.parametrize(
    "name",
    [
        "/dev/zero",
        "/dev/stdin",
        "/",
        "x" * 5000,
        "x" * 5000 + ".toml",
        "a\0b",
        "a\0/b.toml",
        "large.toml",
        "bytes.toml",
    ],
)
def test_names_of_what_can_be_no_profile(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    Path("large.toml").write_bytes(HEAD.encode() + b"#" * (1 << 20))
    Path("bytes.toml").write_bytes(b"\xff")
    with pytest.raises(Failure) as caught:
        profiles.load(name)
    assert (
        caught.value.exit_code in (2, 3) and "expected" in str(caught.value) or "can not be read" in str(caught.value)
    )
    assert len(str(caught.value)) < 6000


@pytest.mark.skipif(not paths.program(model.PROGRAM).is_file(), reason="build/release has no penstock-model")
def test_the_model_and_the_command_line_know_the_same_profiles():
    for name in profiles.built_in_names():
        (found,) = model.answers([{"operation": "profile", "profile": name}])
        if "error" in found and "operation: expected" in found["error"]:
            pytest.skip("this penstock-model has no operation for profiles")
        assert found["figures"] == profiles.built_in(name).figures


def test_written_and_read_again(home):
    head = {"version": 1, "name": 'a"b\\c\nd\x7f\u00e9', "based_on": "ssd", "machine": "m", "made": "2026-01-01"}
    figures = {"memory.map": 1e-6, "file.cached": 1.0, "network.inside.startup": 2.5e-7}
    rows = [{"size_bytes": 8, "seconds": 1e-6}, {"size_bytes": 16, "seconds": 2e-6}]
    path = home / "x.toml"
    profiles.write(path, profiles.text_of(head, figures, {"ping_pong": rows, "r2": 0.5, "flag": True, "none": []}))
    found = profiles.read(path)
    assert found.head == head and found.measurements == {"ping_pong": rows, "r2": 0.5, "flag": True, "none": []}
    assert {key: found.figures[key] for key in figures} == figures and found.own == set(figures)
    assert "# (s; measured: " in path.read_text()
    assert [one.name for one in home.iterdir()] == ["x.toml"]


def test_a_profile_that_could_not_be_read_back_is_not_written(home):
    with pytest.raises(Failure, match="at least"):
        profiles.write(home / "x.toml", profiles.text_of({"version": 1, "name": "x"}, {"memory.map": -1.0}, {}))
    assert not home.exists() or list(home.iterdir()) == []
    with pytest.raises(Failure, match=r"has no memory\.nap"):
        profiles.text_of({"version": 1}, {"memory.nap": 1.0}, {})


def test_found_by_name_by_file_and_by_machine(home):
    place = {"machine": "m", "mount_point": "/data", "file_system": "ext4", "file_system_id": "1"}
    for name, made in (("old", "2025-01-01"), ("new", "2026-01-01")):
        text = profiles.text_of({"version": 1, "name": name, "made": made} | place, {}, {})
        profiles.write(home / f"{name}.toml", text)
    (home / "broken.toml").write_text("x")
    assert [one.name for one in profiles.stored()] == ["new", "old"]
    assert profiles.load("old").name == profiles.load(str(home / "old.toml")).name == "old"
    assert profiles.find("m", "/data", "ext4", "1").name == "new"
    assert profiles.find("m", "/data", "ext4", "2") is None and profiles.find("n", "/data", "ext4", "1") is None
    assert profiles.load("nvm") == profiles.built_in("nvm")


def test_directory_of_profiles():
    assert profiles.directory({"XDG_CONFIG_HOME": "/c", "HOME": "/h"}) == Path("/c/penstock/profiles")
    for config in ("", "relative"):
        found = profiles.directory({"XDG_CONFIG_HOME": config, "HOME": "/h"})
        assert found == Path("/h/.config/penstock/profiles")


@pytest.mark.parametrize("name", ["", "a/b", "../x", "ssd", ".x", "x" * 101, "a b"])
def test_names_that_a_profile_can_not_have(name):
    with pytest.raises(Failure, match="profile name"):
        profiles.checked_name(name)


@pytest.mark.parametrize(
    ("host", "plain"),
    [
        ("node001", "node"),
        ("node-17.cluster", "node"),
        ("n0", "n"),
        ("42", "42"),
        ("login", "login"),
        ("rack-2-", "rack-2"),
        ("-7", "-7"),
        ("", ""),
    ],
)
def test_nodes_of_a_cluster_have_one_name(host, plain):
    assert machine.plain_host(host) == plain
    assert machine.identity(host) == plain


def test_processor_model():
    assert machine.processor_model("processor\t: 0\nmodel name\t: Some  CPU @ 3\n") == "Some CPU @ 3"
    assert machine.processor_model("") != ""


MOUNTS = """22 1 254:0 / / rw - ext4 /dev/vda rw
23 22 0:5 / /data rw shared:3 - tmpfs tmpfs rw
24 22 0:6 / /data/with\\040space rw - lustre host@tcp:/fs rw
nonsense
25 22 0:7 / /dat rw - xfs /dev/b rw
26 22 0:8 / /data rw - xfs /dev/c rw
"""


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/x", ("/", "ext4", "/dev/vda")),
        ("/data/x", ("/data", "xfs", "/dev/c")),
        ("/data", ("/data", "xfs", "/dev/c")),
        ("/datax", ("/", "ext4", "/dev/vda")),
        ("/data/with space/x", ("/data/with space", "lustre", "host@tcp:/fs")),
    ],
)
def test_mount_of_a_path(path, expected):
    assert machine.mount_of(path, MOUNTS) == expected


def test_file_system_of_a_directory(tmp_path):
    found = machine.file_system(tmp_path)
    assert str(tmp_path.resolve()).startswith(found.mount_point) and found.kind
    with pytest.raises(Failure, match="--dir"):
        machine.file_system(tmp_path / "none")
    (tmp_path / "file").write_text("")
    with pytest.raises(Failure, match="expected a directory"):
        machine.file_system(tmp_path / "file")


@pytest.mark.parametrize(
    ("kind", "name"), [("tmpfs", "tmpfs"), ("ext4", "ssd"), ("lustre", "lustre"), ("nfs4", "lustre")]
)
def test_built_in_profile_for_a_file_system(kind, name):
    assert machine.built_in_for(machine.FileSystem("/", kind, "", "")) == name


def test_the_table_of_the_paper_names_every_cell_once():
    table = tomllib.loads(paths.table_file("paper_model").read_text())
    keys = [(cell["table"], cell["device"], cell["access"]) for cell in table["cell"]]
    assert len(keys) == len(set(keys)) == 12
