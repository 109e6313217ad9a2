"""Charts in text and as pictures."""

from xml.etree import ElementTree

from rota.cli.terminal.charts import blocks, svg

DIP = [(float(second), 0.5 if second == 2 else 1.0) for second in range(4)]


def test_a_dip_is_seen_in_its_column() -> None:
    top, *_, bottom, axis, times = blocks(DIP, rows=4)
    assert top == " 100 % │██ █"
    assert bottom.endswith("│████")
    assert axis == "   0 % └────"
    assert times.split() == ["0", "s3", "s"]


def test_many_samples_share_a_column_and_its_lowest_is_shown() -> None:
    points = [(float(second), 0.0 if second == 50 else 1.0) for second in range(100)]
    top, *_ = blocks(points, rows=2, columns=10)
    assert top == " 100 % │█████ ████"


def test_nothing_is_no_chart_and_no_error() -> None:
    assert len(blocks([])) == 8


def test_the_picture_is_xml_and_names_what_it_shows() -> None:
    root = ElementTree.fromstring(svg(DIP, "rooms & more"))
    assert "rooms & more" in [element.text for element in root]
