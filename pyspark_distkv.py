"""Makes `spark.read.format("distkv")` known: PySpark imports every module whose name begins so, and registers its
`DefaultSource`."""

from distkv.spark.source.source import DistkvSource as DefaultSource

__all__ = ["DefaultSource"]
