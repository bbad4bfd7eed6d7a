"""Groups that match a difference in the hosts' software are doubtful."""

from __future__ import annotations

from netprobe.core.documents.scan import Agent, AuditReading, HostAudit, Measurement
from netprobe.pipeline.mapping.confounding import confounding_warnings
from netprobe.pipeline.mapping.map_scan import map_scan
from tests.documents import rack_scan


def test_a_split_by_kernel_or_by_iperf3_is_distinguished_from_a_mix() -> None:
    scan, labels = rack_scan((4, 4), seed=3)
    map_ = map_scan(scan)
    assert len(map_.groups) == 2
    goodput = Measurement(
        id="goodput", key="goodput_bytes_per_s", method="iperf3", unit="B/s", statistic="p50"
    )

    def with_versions(versions: list[str], kernels: list[str]) -> list[str]:
        hosts = [
            host.model_copy(
                update={
                    "agent": Agent(version="1", python="3.11", hostname=host.name, kernel=kernel),
                    "audit": HostAudit(
                        start=AuditReading(delay_p50_s=0, delay_p99_s=0),
                        cores=2,
                        programs={"iperf3": version},
                    ),
                }
            )
            for host, version, kernel in zip(scan.hosts, versions, kernels, strict=True)
        ]
        changed = scan.model_copy(update={"hosts": hosts, "measurements": [*scan.measurements, goodput]})
        return confounding_warnings(changed, map_)

    by_rack = ["iperf 3.9" if rack else "iperf 3.12" for rack in labels]
    same = ["Linux 6.1"] * 8
    (text,) = with_versions(by_rack, same)
    assert "coincide with the version of iperf3" in text and "iperf 3.9" in text and "iperf 3.12" in text
    (text,) = with_versions(same, by_rack)
    assert "coincide with the kernel" in text
    mixed = [*by_rack]
    mixed[labels.index(0)] = "iperf 3.9"
    assert with_versions(mixed, same) == []
    assert with_versions(same, same) == []
