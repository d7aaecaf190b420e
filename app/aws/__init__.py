"""AWS: training jobs and training plans of Amazon SageMaker AI."""
