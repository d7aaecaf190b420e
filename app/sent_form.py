"""A sent form: its fields as they came, with limits on how much it may hold."""

from fastapi import Request
from starlette.datastructures import FormData, UploadFile

from app.access.csrf import FIELD
from app.forms import FormValues

MAX_FILES, MAX_FIELDS, MAX_PART_BYTES = 1, 100, 1024**2


async def read_form(request: Request) -> FormData:
    """The fields of a sent form; the request keeps them for whoever asks again."""
    return await request.form(
        max_files=MAX_FILES, max_fields=MAX_FIELDS, max_part_size=MAX_PART_BYTES
    )


async def sent_form(request: Request) -> FormValues:
    """The fields of a posted form; the text of an uploaded config.json replaces the pasted one."""
    values: FormValues = {}
    form = await read_form(request)
    try:
        for name, value in form.multi_items():
            if isinstance(value, UploadFile):
                content = await value.read()
                if content:
                    values["model_config"] = [content.decode("utf-8", "replace")]
            elif name != FIELD:
                values.setdefault(name, []).append(value)
    finally:
        await form.close()
    return values
