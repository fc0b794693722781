"""How the models of a scenario are written: camel case, frozen, and no unknown field."""

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class ScenarioModel(BaseModel):
    """A part of a scenario."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
        frozen=True,
        use_attribute_docstrings=True,
    )
