"""What the stand-in refuses, in AWS's words."""


class Refusal(Exception):
    """An error answer of AWS. code: as boto3 shows it. status: of HTTP."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.status = status


def missing() -> Refusal:
    """What SageMaker says of anything that it does not know."""
    return Refusal("ValidationException", "Requested resource not found.")
