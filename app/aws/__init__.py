"""AWS: SageMaker as a backend, its reservations, the checks before a job, and a stand-in."""
