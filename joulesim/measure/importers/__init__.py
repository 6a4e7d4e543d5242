"""
Records and power logs from what other tools write.

Speed and answers: :func:`read_llama_bench`, :func:`read_vllm_bench`, :func:`read_requests`, :func:`read_table`.
Power over time: :func:`read_nvidia_smi`, :func:`read_ptdaemon`, :func:`read_wall_csv`, :func:`read_tegrastats`.
:func:`with_power` puts the second into the first. Rows that cannot be used are reported by file and line; nothing
is repaired.
"""

from joulesim.measure.importers.join import with_power
from joulesim.measure.importers.llama_bench import read_llama_bench
from joulesim.measure.importers.mlperf_power import ranging, read_ptdaemon
from joulesim.measure.importers.nvidia_smi import read_nvidia_smi
from joulesim.measure.importers.request_log import read_requests
from joulesim.measure.importers.table import read_table
from joulesim.measure.importers.vllm_bench import read_vllm_bench
from joulesim.measure.importers.wall_log import read_tegrastats, read_wall_csv

__all__ = [
    "ranging",
    "read_llama_bench",
    "read_nvidia_smi",
    "read_ptdaemon",
    "read_requests",
    "read_table",
    "read_tegrastats",
    "read_vllm_bench",
    "read_wall_csv",
    "with_power",
]
