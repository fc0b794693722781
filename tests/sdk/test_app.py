"""What an application accepts as a handler, and how it says no."""

import functools

import pytest

from leadsman import App
from leadsman.app import CAPABILITY_PATTERN, NAME_PATTERN
from leadsman.errors import ConfigurationError
from leadsman.wire import base


def nothing(_ctx): ...


def pattern(annotated):
    return next(item.pattern for item in annotated.__metadata__[0].metadata if hasattr(item, "pattern"))


def test_the_patterns_are_those_of_the_wire():
    assert pattern(base.Name) == CAPABILITY_PATTERN
    assert pattern(base.HandlerName) == NAME_PATTERN


def test_a_decorated_function_stays_the_function():
    app = App()

    @app.task("browser")
    def browse(ctx):
        return ctx

    assert browse(3) == 3


def test_handlers_are_found_by_capability_and_name():
    app = App()

    @app.task("browser")
    async def browse(ctx): ...

    @app.task("browser", name="fetch")
    def fetch(ctx): ...

    assert app.handler("browser").is_async
    assert not app.handler("browser", "fetch").is_async
    assert app.handler("browser", "other") is None
    assert app.names("browser") == ("default", "fetch")
    assert app.capabilities == ("browser",)


def test_partials_and_objects_with_an_async_call_are_async():
    class Callable:
        async def __call__(self, ctx): ...

    async def handler(extra, ctx): ...

    app = App()
    app.task("a")(Callable())
    app.task("b")(functools.partial(handler, 1))
    assert app.handler("a").is_async
    assert app.handler("b").is_async


def test_two_handlers_for_the_same_tasks_are_refused_by_name():
    app = App()
    app.task("browser")(nothing)
    with pytest.raises(ConfigurationError, match=r"browser/default has two handlers.*another name="):
        app.task("browser")(nothing)


@pytest.mark.parametrize("capability", ["", "Browser", "-x", "a_b", "x" * 254, "a b", "browser\n"])
def test_a_capability_that_no_task_can_have_is_refused(capability):
    with pytest.raises(ConfigurationError, match="no capability name"):
        App().task(capability)


@pytest.mark.parametrize("name", ["", "a b", "ä", "x" * 129, ".x"])
def test_a_handler_name_that_no_task_can_have_is_refused(name):
    with pytest.raises(ConfigurationError, match="no handler name"):
        App().task("browser", name=name)


@pytest.mark.parametrize("function", [lambda: None, lambda _a, _b, _c: None, lambda *, _ctx: None])
def test_a_handler_must_take_the_context_and_no_more_than_the_payload_beside(function):
    with pytest.raises(ConfigurationError, match="must take the context, and may take the payload"):
        App().task("browser")(function)


def test_generators_are_refused():
    def handler(ctx):
        yield ctx

    with pytest.raises(ConfigurationError, match="return the result instead of yielding"):
        App().task("browser")(handler)


def test_an_application_takes_over_the_handlers_of_another():
    inner, outer = App(), App()
    inner.task("llm")(nothing)
    outer.include(inner)
    assert outer.capabilities == ("llm",)
    with pytest.raises(ConfigurationError, match="two handlers"):
        outer.include(inner)
