"""Verifying with real agents on this machine: what is written, what is refused, and hosts that go."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from netprobe.cli.entry import run
from netprobe.core.document import load_document
from netprobe.core.errors import InputError
from netprobe.core.hosts import make_host
from netprobe.core.map import Map
from netprobe.core.plan import OrderPlan
from netprobe.core.verify import Verify
from netprobe.pipeline import map_scan, plan_order
from netprobe.pipeline.verifying import Baseline, NothingVerifiedError, load_baseline, verify_order
from netprobe.plan import load_plan
from netprobe.probe.events import Event, Step
from netprobe.probe.exec_launcher import LocalLauncher
from netprobe.verify.contest import ContestOptions
from netprobe.verify.run import VerifyOptions
from tests.documents import make_scan, rack_rtt

QUICK = VerifyOptions(size_bytes=50_000, contest=ContestOptions(time_s=1.0, precision=0.5))
