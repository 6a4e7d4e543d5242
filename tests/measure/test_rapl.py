"""RAPL through a fake powercap tree."""

import os
from pathlib import Path

import pytest

from joulesim.measure.meters import rapl
from joulesim.measure.meters.base import MeterAbsent

from .clock import Clock, run

RANGE = 262_143_328_850
"""max_energy_range_uj of a 2^-14 J unit on common Intel parts. [uJ]"""


class Tree:
    """A powercap tree whose entries are links into a device folder, as in real sysfs."""

    def __init__(self, folder, clock):
        self.root, self.devices, self.clock = folder / "powercap", folder / "devices", clock
        self.root.mkdir()
        self.zones = {}

    def add(self, entry, name, power=0.0, first=0, size=RANGE):
        path = self.devices / entry.rpartition(":")[0].replace(":", "_") / entry
        path.mkdir(parents=True)
        (path / "name").write_text(name + "\n")
        if size:
            (path / "max_energy_range_uj").write_text(f"{size}\n")
        (self.root / entry).symlink_to(path)
        self.zones[entry] = (path, power, first, size, self.clock())
        self.update()
        return path

    def update(self, *_):
        for path, power, first, size, began in self.zones.values():
            count = first + round(power * (self.clock() - began) * 1e6)
            (path / "energy_uj").write_text(f"{count % size if size else count}\n")


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def tree(tmp_path, clock):
    return Tree(tmp_path, clock)


def measured(tree, seconds, step=0.5):
    meter = rapl.open_meter(tree.root, clock=tree.clock, threaded=False)
    return run(meter, tree.clock, seconds, step, during=tree.update)


def test_nested_domains_are_not_added(tree):
    """Case rapl-05: psys 9.6 W, package 3.8 W, core 0.8 W, uncore 0.2 W is 3.8 W, never 14.4 W."""
    tree.add("intel-rapl:0", "package-0", 3.8)
    tree.add("intel-rapl:0:0", "core", 0.8)
    tree.add("intel-rapl:0:1", "uncore", 0.2)
    tree.add("intel-rapl:1", "psys", 9.6)
    reading = measured(tree, 10.0)
    assert reading.power == pytest.approx(3.8)
    assert list(reading.parts) == ["package-0"]
    assert (reading.meter.boundary, reading.meter.scope) == ("chip", "CPU package")
    assert reading.meter.notes == (
        "not added: core, psys, uncore (psys contains the package, the package contains the others)",
    )


def test_dram_is_added_and_changes_the_boundary(tree):
    tree.add("intel-rapl:0", "package-0", 100.0)
    tree.add("intel-rapl:0:0", "dram", 10.0)
    tree.add("intel-rapl:1", "package-1", 90.0)
    tree.add("intel-rapl:1:0", "dram", 9.0)
    reading = measured(tree, 10.0)
    assert reading.power == pytest.approx(209.0)
    assert set(reading.parts) == {"package-0", "package-0-dram", "package-1", "package-1-dram"}
    assert (reading.meter.boundary, reading.meter.scope) == ("board", "CPU package and DRAM")


def test_mmio_shows_the_same_package_again(tree):
    tree.add("intel-rapl-mmio:0", "package-0", 3.8)
    tree.add("intel-rapl:0", "package-0", 3.8)
    reading = measured(tree, 10.0)
    assert reading.power == pytest.approx(3.8)
    assert "intel-rapl:0/energy_uj" in reading.meter.fields[0]


def test_dies_of_one_package_are_added(tree):
    tree.add("intel-rapl:0", "package-0-die-0", 60.0)
    tree.add("intel-rapl:1", "package-0-die-1", 70.0)
    assert measured(tree, 10.0).power == pytest.approx(130.0)


def test_wrap_is_repaired(tree):
    """Case rapl-01: the counter turns at 262144 J, once in 27 minutes at 163.2 W."""
    tree.add("intel-rapl:0", "package-0", 163.2, first=248_923_000_000)
    reading = measured(tree, 240.0, step=1.0)
    assert reading.energy == pytest.approx(163.2 * 240.0, rel=1e-6)
    assert [str(reason) for reason in reading.reasons] == ["counter-wrapped: package-0: 1 times"]


def test_wrap_with_unknown_range_is_unknown(tree):
    path = tree.add("intel-rapl:0", "package-0", 163.2, first=RANGE - 1_000_000)
    (path / "max_energy_range_uj").unlink()
    reading = measured(tree, 10.0)
    assert (reading.energy, reading.energy_reason.code) == (None, "counter-went-back")
    assert (
        "max_energy_range_uj is not readable: a wrap of the counter cannot be repaired" in reading.meter.notes
    )


def test_underflow_is_left_out(tree):
    """Case rapl-03: 18446744073447456768 is a negative difference stored without its sign."""
    path = tree.add("intel-rapl:0", "package-0", 50.0)
    meter = rapl.open_meter(tree.root, clock=tree.clock, threaded=False)

    def during(t):
        tree.update()
        if t == 5.0:
            (path / "energy_uj").write_text("18446744073447456768\n")

    reading = run(meter, tree.clock, 10.0, 0.5, during)
    assert reading.energy == pytest.approx(500.0)
    assert str(reading.reasons[0]) == "samples-dropped: package-0: 1 values that no counter can have"


def test_reset_is_no_wrap(tree):
    """A counter that restarts would look like 3.7 kW if it were taken for a wrap."""
    tree.add("intel-rapl:0", "package-0", 50.0, first=200_000_000_000)
    meter = rapl.open_meter(tree.root, clock=tree.clock, threaded=False)

    def during(t):
        if t == 5.0:
            path, power, _, size, _ = tree.zones["intel-rapl:0"]
            tree.zones["intel-rapl:0"] = (path, power, 0, size, tree.clock())
        tree.update()

    assert run(meter, tree.clock, 10.0, 0.5, during).energy_reason.code == "counter-went-back"


def test_polls_faster_than_half_a_turn(tree):
    tree.add("intel-rapl:0", "package-0", 100.0, size=3_000_000_000)
    assert rapl.open_meter(tree.root, threaded=False).period == 0.5


def deny(monkeypatch, *denied):
    """Make files readable by root only; the tests may run as root."""
    real = Path.read_text

    def read_text(path, *args, **kwargs):
        if path.name == "energy_uj" and any(name in str(path) for name in denied):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, *args, **kwargs)

    monkeypatch.setattr(Path, "read_text", read_text)


def test_root_only_names_the_command_that_helps(tree, monkeypatch):
    """Case rapl-06: -r-------- root root energy_uj since Linux 5.10."""
    tree.add("intel-rapl:0", "package-0", 3.8)
    tree.add("intel-rapl:0:0", "dram", 1.0)
    deny(monkeypatch, "intel-rapl")
    info = rapl.probe(tree.root)
    files = [f"{tree.root}/intel-rapl:0/energy_uj", f"{tree.root}/intel-rapl:0:0/energy_uj"]
    assert not info.available
    assert str(info.reason) == f"no-permission: {files[0]} is readable by root only"
    assert info.remedy == f"sudo chmod a+r {files[0]} {files[1]}"
    with pytest.raises(
        MeterAbsent, match="meter rapl: no-permission: .* is readable by root only; sudo chmod a.r /"
    ):
        rapl.open_meter(tree.root)


def test_unreadable_dram_alone_leaves_the_package(tree, monkeypatch):
    tree.add("intel-rapl:0", "package-0", 3.8)
    tree.add("intel-rapl:0:0", "dram", 1.0)
    deny(monkeypatch, "intel-rapl:0:0")
    info = rapl.probe(tree.root)
    assert (info.available, info.boundary) == (True, "chip")
    assert info.notes[0].startswith("package-0-dram is left out, it is not readable: sudo chmod a+r ")


def test_permission_that_goes_away_in_the_middle(tree, monkeypatch):
    tree.add("intel-rapl:0", "package-0", 3.8)
    meter = rapl.open_meter(tree.root, clock=tree.clock, threaded=False)
    meter.start()
    tree.clock.sleep(10.0)
    deny(monkeypatch, "intel-rapl")
    assert meter.stop().energy_reason.code == "no-permission"


def test_counter_that_cannot_be_parsed(tree):
    path = tree.add("intel-rapl:0", "package-0", 3.8)
    meter = rapl.open_meter(tree.root, clock=tree.clock, threaded=False)
    meter.start()
    tree.clock.sleep(10.0)
    (path / "energy_uj").write_text("garbage")
    reading = meter.stop()
    assert reading.energy_reason.code == "driver-error"
    assert "invalid literal for int" in reading.energy_reason.detail


def test_readable_files_are_found_whatever_the_layout(tree):
    """Case rapl-07: files are readable and the tool found nothing."""
    tree.add("intel-rapl:0", "package-0", 3.8)
    assert os.path.islink(tree.root / "intel-rapl:0")
    assert rapl.probe(tree.root).available


def test_no_powercap(tmp_path):
    """Case rapl-08: WSL2, EC2 and most virtual machines have no powercap."""
    info = rapl.probe(tmp_path / "powercap")
    assert (info.available, info.reason.code) == (False, "no-meter")
    assert "does not exist: " in info.reason.detail
    assert "offers no RAPL" in info.reason.detail
    assert info.remedy == "measure on the machine itself"


def test_wsl_is_named(tmp_path, monkeypatch):
    real = Path.read_text
    monkeypatch.setattr(
        Path,
        "read_text",
        lambda p, *a, **k: "Linux microsoft-standard-WSL2" if str(p) == "/proc/version" else real(p, *a, **k),
    )
    assert "WSL offers no RAPL" in rapl.probe(tmp_path / "powercap").reason.detail


def test_powercap_without_a_package(tree):
    assert "holds no CPU package" in rapl.probe(tree.root).reason.detail


def test_other_systems(monkeypatch, tree):
    monkeypatch.setattr("sys.platform", "win32")
    assert rapl.probe(tree.root).reason.detail == "powercap is a part of Linux"


def test_device_counts_packages(tree):
    tree.add("intel-rapl:0", "package-0", 3.8)
    tree.add("intel-rapl:0:0", "dram", 1.0)
    device = rapl.open_meter(tree.root, threaded=False).device()
    assert (device.ids, device.count) == (("package-0",), 1)
