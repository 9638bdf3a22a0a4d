"""A kernel's signature in words: what jaxtyping writes for a machine, said for a reader."""

import ast

KINDS = {
    "Bool": "boolean",
    "Complex": "complex",
    "Float": "float",
    "Inexact": "float or complex",
    "Int": "integer",
    "Integer": "integer",
    "Num": "number",
    "Real": "real",
    "Shaped": "any",
    "UInt": "unsigned integer",
}
ARRAYS = {"ndarray": "array", "Tensor": "tensor"}


def readable(annotation: ast.expr | None) -> str:
    """``Float[np.ndarray, "*batch d_k"]`` as "float array ``(*batch, d_k)``"; other annotations as they are."""
    match annotation:
        case None:
            return ""
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return f"{readable(left)} or {readable(right)}"
        case ast.Subscript(value=ast.Name(id=kind), slice=ast.Tuple(elts=[array, ast.Constant(value=str(shape))])) if (
            kind in KINDS
        ):
            array = array.attr if isinstance(array, ast.Attribute) else ast.unparse(array)
            axes = shape.replace("#", "").split()
            dims = f"({axes[0]},)" if len(axes) == 1 and axes[0].isidentifier() else f"({', '.join(axes)})"
            what = f"{KINDS[kind]} {ARRAYS.get(array, array)}"
            how = " that broadcasts to" if "#" in shape else ""
            return f"{what}{how} ``{dims}``" if axes else f"{what} with no axes"
        case ast.Subscript(value=ast.Name(id="tuple"), slice=ast.Tuple(elts=parts)):
            return ", ".join(readable(part) for part in parts)
        case ast.Constant(value=None):
            return "None"
        case _:
            return f"``{ast.unparse(annotation)}``"


def types(function: ast.FunctionDef) -> dict[str, str]:
    """What each parameter is, in words, with its default."""
    arguments = function.args
    positional = arguments.posonlyargs + arguments.args
    defaults = dict(zip([a.arg for a in positional][-len(arguments.defaults) :], arguments.defaults, strict=False))
    defaults |= {a.arg: value for a, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if value}
    found = {}
    for argument in positional + arguments.kwonlyargs:
        default = f"``{ast.unparse(defaults[argument.arg])}`` by default" if argument.arg in defaults else ""
        found[argument.arg] = ", ".join(part for part in (readable(argument.annotation), default) if part)
    return found


def call(name: str, function: ast.FunctionDef | None) -> str:
    """The signature without annotations: ``softmax(x, axis=-1)``."""
    if function is None:
        return f"{name}()"
    arguments = ast.parse(ast.unparse(function)).body[0].args
    for argument in arguments.posonlyargs + arguments.args + arguments.kwonlyargs:
        argument.annotation = None
    arguments.args = [argument for argument in arguments.args if argument.arg != "self"]
    return f"{name}({ast.unparse(arguments)})"
