"""The data source `distkv` of Spark: reads, streams, views, and writes.

`source` is what Spark makes; `options` are what its user says. A read is `partitions`; a stream is `progress` (what the
next batch has), `lookout` (what nodes tell meanwhile) and `offsets`; `views` are what a network holds now; a write is
`row_writes` (what a row asks for) and `sending`.
"""
