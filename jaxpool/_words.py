"""The words of other libraries: arguments, orders and names that jaxpool does not have, answered by the call to write.

Nothing here runs unless a call has failed or a name is missing.
"""

import inspect
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from importlib import import_module
from typing import Any

from jaxpool._kernels import VALUES, Bins, Whole
from jaxpool._sizes import letters_meant

# An argument, and what others call it. Where a function has two of these arguments, the first is meant.
RENAMED = {
    "x": "input inputs array image images",
    "where": "mask",
    "key": "rng seed",
    "axis": "dim dims axes data_format",
    "keepdims": "keepdim",
    "correction": "ddof",
    "norm_type": "p",
    "beta": "temperature",
    "logits": "scores",
    "q": "quantile percentile",
    "boxes": "rois",
    "element": "size footprint structure kernel selem",
    "output_size": "size target_shape",
    "blur_size": "filt_size",
    "kernel_size": "window_shape pool_size window kernel ksize size filt_size footprint window_dimensions",
    "stride": "strides window_strides",
    "padding": "pad",
    "dilation": "dilations window_dilation",
    "ceil_mode": "use_ceil",
}
# Whole arguments for what is given under some of these words, if it is an array.
ARRAYS = {f"element {word}": f"{word} != 0" for word in ("footprint", "kernel", "selem")}
ARRAYS["kernel_size footprint"] = "jaxpool.footprint(footprint != 0)"
_LAYOUT = "give each axis of x a letter, as in axis='NHWC' or axis='NCHW', which pool all but N and C"
_FIRST = " where channels are first"
_UNPOOL = f"give the size before pooling, not the window, as in max_unpool(values, indices, x.shape[-2:]){_FIRST}"
_KEY = "give a key to draw cells, and key=None for the mean"
_BOXES = "boxes are in cells of x, with corners in the order of its axes; "
# Arguments that have another form here, alone or after the name of the only function that answers so.
SENTENCES = {
    "data_format": _LAYOUT,
    "channel_axis": _LAYOUT,
    "unbiased": "write correction=1 for unbiased=True, correction=0 for unbiased=False",
    "keepdims": "the pooled axes remain; remove those of size 1 with jnp.squeeze, or use a global pool",
    "spatial_scale": f"{_BOXES}multiply them by spatial_scale, as in boxes * {{value}}",
    "attention_pool weights": "logits come after x; for weights that are not logits use weighted_pool",
    "attention_pool num_heads": "write attention_pool(x.reshape(*x.shape[:2], num_heads, -1), logits, jaxpool.whole, "
    "axis=1) for the layout 'NTC', with logits of shape (N, T, num_heads, 1)",
    "lengths": "write where=jnp.arange(x.shape[1])[None, :, None] < lengths[:, None, None] for the layout 'NTC'",
    "key_padding_mask": "write where=~key_padding_mask[..., None] for the layout 'NTC'",
    "padding_mode": "padding takes words, as in padding='WRAP', or with amounts padding=(('WRAP', 1), ('WRAP', 1))",
    "mode": "write padding='SYMMETRIC' for SciPy's reflect, 'REFLECT' for mirror, 'EDGE' for nearest, 'WRAP' for wrap",
    "max_unpool kernel_size": _UNPOOL,
    "max_unpool stride": _UNPOOL,
} | {
    f"{name} return_indices": f"use {name}_with_indices, which returns (values, indices)"
    for name in ("max_pool", "min_pool", "top_k_pool", "adaptive_max_pool", "fractional_max_pool")
}
SENTENCES |= {f"stochastic_pool {word}": _KEY for word in ("training", "train", "deterministic")}
# Names, without underscores and dimensions, for which no function here is called alike.
NAMES = {
    "upsample": "max_unpool puts values back where a max pool took them; jax.image.resize enlarges an array",
    "lsepool": "write jaxpool.smooth_max_pool(x, 1.0, (2, 2)) for log-sum-exp, mellowmax_pool for log-mean-exp",
    "kmaxpool": "write jaxpool.top_k_pool(x, 2, (2, 2)), which sorts the k largest cells of each window",
    "blockreduce": "for full blocks write jaxpool.max_pool(x, (2, 2)) for np.max, jaxpool.avg_pool for np.mean",
    "nn": "pools are functions, as in jaxpool.max_pool(x, (2, 2)); jaxpool.compat.torch has those of PyTorch",
}
_FILTERS = {"median": "median_pool", "uniform": "avg_pool", "maximum": "max_pool", "minimum": "min_pool"}
NAMES |= {
    f"{word}filter": f"write jaxpool.{pool}(x, (3, 3), 1, 'SYMMETRIC'), for odd sizes and the default edges of SciPy"
    for word, pool in _FILTERS.items()
}
# Such names, and those that are meant.
ALIASES = {
    **{"generalizedavgpool": "gempool", "logsumexppool": "smoothmaxpool", "maxpoolwithargmax": "maxpoolwithindices"},
    **{"rankfilter": "quantilepool", "upsampling": "upsample", "unpool": "upsample"},
    **{"dilate": "dilation", "binarydilation": "dilation", "erode": "erosion", "percentilefilter": "quantilepool"},
}
# Required arguments for a call to write, those of one function after its name, and where axes are given before "axis".
EXAMPLES = {
    **{"kernel_size": "(2, 2)", "output_size": "(7, 7)", "norm_type": "3", "beta": "1.0", "alpha": "0.5", "q": "0.5"},
    **{"k": "2", "levels": "((1, 1), (2, 2))", "element": "(3, 3)", "pool_size": "(2, 2)", "window_shape": "(2, 2)"},
    **{"kernel_size axis": "2", "output_size axis": "7", "attention_pool kernel_size axis": "jaxpool.whole"},
    **{"max_unpool output_size": "x.shape[-2:]", "max_unpool output_size axis": "output_size"},
}
# The layouts that an array with this many axes may have.
LAYOUTS = {2: ("TC", "HW"), 3: ("NTC", "NCT"), 4: ("NHWC", "NCHW"), 5: ("NDHWC", "NCDHW")}


def answer_names(module: str, *lazy: str) -> None:
    """Make a module answer names that it does not have, list only its own, and import the lazy ones at first use."""

    def answer(name: str) -> Any:
        if name in lazy:
            return import_module(f"{module}.{name}")
        message, fix = f"module {module!r} has no attribute {name!r}", name[0] != "_" and _name_meant(module, name)
        raise AttributeError(f"{message}; {fix}" if fix else message, name=name, obj=sys.modules[module])

    names = vars(sys.modules[module])
    names["__getattr__"] = answer
    names["__dir__"] = lambda: sorted({*_own(module), *lazy, *(n for n in names if n[:2] == "__")})


def answer_calls(module: str) -> None:
    """Make the functions of a module answer arguments that they do not have."""
    for name, function in _own(module).items():
        if inspect.isfunction(function):
            # Where it is defined, too, which is where pickle looks for it.
            call = _answering(function)
            for home in {module, function.__module__}:
                setattr(sys.modules[home], name, call)


def _own(module: str) -> dict[str, Any]:
    """The public names of a module, without what it imports for itself."""
    names = {name: one for name, one in vars(sys.modules[module]).items() if name[0] != "_"}
    homes = {name: getattr(one, "__module__", getattr(one, "__name__", "")) for name, one in names.items()}
    return {name: one for name, one in names.items() if homes[name].startswith(module)}


def _answering(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except (TypeError, ValueError) as error:
            # Without a frame below this one Python has refused the arguments.
            is_refused = error.__traceback__ is None or error.__traceback__.tb_next is None
            fix = (_arguments_meant if is_refused else _order_meant)(function, args, kwargs)
            if fix is None:
                raise
            raise TypeError(f"{function.__name__}: {fix}") from None

    return call


def _arguments_meant(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> str | None:
    name, parameters = function.__name__, inspect.signature(function).parameters
    words = [word for word in kwargs if word not in parameters]
    x = next((one for one in (*args, *kwargs.values()) if hasattr(one, "ndim")), None)
    if words:
        for word in words:
            sentence = SENTENCES.get(f"{name} {word}", SENTENCES.get(word))
            if sentence and not (word == "data_format" and isinstance(kwargs[word], str)):
                return sentence.format(value=_shown(word, kwargs[word]))
        meant = {word: one for one in reversed(RENAMED) if one in parameters for word in RENAMED[one].split()}
        written = (f"{meant[word]}={_shown(word, kwargs[word], x, meant[word])}" for word in words)
        return f"write {', '.join(written)} in place of {', '.join(words)}" if {*words} <= {*meant} else None
    by_name = [one for one in parameters if parameters[one].kind is inspect.Parameter.KEYWORD_ONLY]
    surplus = args[len(parameters) - len(by_name) :]
    if len(surplus) > len(by_name):
        return SENTENCES.get(f"{name} kernel_size")
    if surplus:
        # PyTorch's averages have ceil_mode where its maxima have dilation.
        by_name = [one for one in by_name if one != "dilation" or not isinstance(surplus[0], bool)]
        if isinstance(surplus[0], str) and "axis" in by_name:
            by_name = ["axis"]
        # Torchvision's scale comes first.
        scale = [f"boxes * {surplus[0]}"] if "boxes" in parameters and isinstance(surplus[0], float) else []
        named = (f"{one}={_shown(one, value, x)}" for one, value in zip(by_name, surplus[len(scale) :], strict=False))
        return f"{_BOXES if scale else f'{by_name[0]} is given by its name; '}write {', '.join([*scale, *named])}"
    required = [one for one in parameters if parameters[one].default is inspect.Parameter.empty]
    if {*required} <= {*[*parameters][: len(args)], *kwargs}:
        return None
    return f"the first arguments are {', '.join(required)}; write {_call(function, args, kwargs)}"


def _order_meant(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> str | None:
    """What to write where a window stands before the array, or before the number or the array between them."""
    names = [*inspect.signature(function).parameters]
    is_first = len(args) > 1 and isinstance(args[0], (int, tuple)) and getattr(args[1], "ndim", 0)
    if is_first and any(one in EXAMPLES for one in names[1:2]):
        return f"{names[0]} comes first; write {_call(function, (), {**kwargs, names[1]: args[0]})}"
    if len(args) < 3 or names[2] != "kernel_size":
        return None
    _, first, second, *_ = args
    is_sizes = isinstance(first, tuple) and all(isinstance(one, int) and one > 0 for one in first)
    is_window = is_sizes or isinstance(first, VALUES)
    if (is_window and not isinstance(second, (tuple, list))) or (isinstance(second, float) and second % 1):
        come = "come" if names[1].endswith("s") else "comes"
        call = _call(function, args[:1], {**kwargs, names[1]: second, names[2]: first})
        return f"{names[1]} {come} before kernel_size; write {call}"
    return None


def _name_meant(module: str, name: str) -> str | None:
    """What to write in place of a name that the module does not have."""
    dimensions = re.findall(r"([123])d", name.lower())
    meant = ALIASES.get(_plain(name), _plain(name))
    fix = NAMES.get(meant)
    for home in ("jaxpool.morphology", "jaxpool", module):
        own = {one: value for one, value in _own(home).items() if callable(value)}
        alike = [one for one in own if _plain(one) in (meant, f"{meant}pool")]
        if alike:
            target = own[max(alike, key=lambda one: [n in one for n in dimensions])]
            layer = ", or functools.partial of it for a layer" if name[0].isupper() else ""
            fix = f"write {home}.{_call(target, (), {})}{layer}"
    if fix and dimensions:
        # Windows, sizes and letters for as many axes; global layers keep no pooled axes.
        n = int(dimensions[0])
        fix = re.sub(r"\((\d), \1\)", lambda two: repr((int(two[1]),) * n), fix).replace("-2:", f"-{n}:")
        fix = fix.replace("C') or", "C', keepdims=False) or").replace("HW", ("T", "HW", "DHW")[n - 1])
    return fix


def _plain(name: str) -> str:
    """A name in lower case, without underscores, dimensions and "grey", and with one word for a mean."""
    return re.sub("average|mean", "avg", re.sub(r"[123]d|_|(?<=pool)ing|^gr[ea]y", "", name.lower()))


def _call(function: Callable[..., Any], args: Sequence[Any], given: Mapping[str, Any]) -> str:
    """The call with its required arguments: those given by place, if they are all, and by name, or examples."""
    name, parameters = function.__name__, inspect.signature(function).parameters
    required = [one.name for one in parameters.values() if one.default is one.empty]
    by_place = [one for one in required if one not in given]
    values = {**given, **(dict(zip(by_place, args, strict=True)) if len(args) == len(by_place) else {})}
    x, shown, choice = next(iter(args), given.get("x")), {}, ""
    for one in dict.fromkeys([*required, "axis"] if "axis" in given else required):
        keys = [f"{name} {one}", one]
        keys = [f"{key} axis" for key in keys] + keys if "axis" in given else keys
        example = next((EXAMPLES[key] for key in keys if key in EXAMPLES), one)
        shown[one] = _shown(one, values[one], x) if one in values else example
    if "axis" in required and "axis" not in given:
        layout, other = LAYOUTS.get(getattr(x, "ndim", 4), LAYOUTS[4])
        shown["axis"], choice = repr(layout), f" or axis={other!r}, as x is laid out"
    elif shown.get("output_size") == EXAMPLES["max_unpool output_size"]:
        choice = _FIRST
    by_name = inspect.Parameter.KEYWORD_ONLY
    call = ", ".join(f"{one}={text}" if parameters[one].kind is by_name else text for one, text in shown.items())
    return f"{name}({call}){choice}"


def _shown(name: str, value: Any, x: Any = None, argument: str | None = None) -> str:
    """What is written for a value under this name, or `argument` here: itself if it is short, or else the name."""
    if isinstance(value, (Bins, Whole)):
        return f"jaxpool.{value}"
    if name in ("axis", "data_format") and isinstance(value, str):
        value = letters_meant(value, getattr(x, "ndim", 4)) or value
    if isinstance(value, (int, float, str, tuple, list)) and len(repr(value)) < 40:
        return repr(value)
    return ARRAYS.get(f"{argument} {name}", name) if hasattr(value, "dtype") else name
