"""What measures: studies of the paper, benchmarks. Nothing else imports it."""
