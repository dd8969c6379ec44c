"""The trio driver: carries out what the core decides, in the order that makes the promises true."""
