"""What a run shows while it goes."""

from fedrl.records.progress import Tracker, sparkline


def test_progress_tells_speed_and_time_left():
    now = iter(range(0, 1000, 10))
    tracker = Tracker(["a", "b"], seeds=3, clock=lambda: next(now))
    first = {"round": 1, "env_steps": 100, "return": 1.0}
    assert tracker.status("b", first, 5).which == "2/2"
    status = tracker.status("b", first | {"round": 3, "env_steps": 300, "return": 2.0}, 5)
    took = 20  # the clock is asked twice for the first row and once for the second
    assert (status.result, status.spark, status.at) == ("return 2.000", "▁█", "3/5")
    assert (status.speed, status.left) == (f"{3 * 200 / took:.0f} steps/s", "0:20 left")
    assert sparkline([float("nan"), 1.0, 1.0]) == " ▁▁"
