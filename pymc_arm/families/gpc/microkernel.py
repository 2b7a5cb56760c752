"""The product at the heart of a sweep, with its accumulators in registers.

A sweep needs (S z)_i of a panel of six sites for a tile of particles, just before it moves those
sites. That is a matrix product with six rows, too thin for BLAS, but its 6 x 2 (or 6 x 4) vector
accumulators are just what the register file holds. Compilers do not find this shape by
themselves, so that it is written here as a numba intrinsic in LLVM's vector types; LLVM
legalises them for any processor.
"""

from typing import Any

import llvmlite.binding
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

__all__ = ["PANEL", "TILE_BYTES", "multiply_panel"]

#: Sites in a panel.
PANEL = 6
#: Bytes in a row of a tile: 64 particles in float32, 32 in float64.
TILE_BYTES = 256


def _vector_shape() -> tuple[int, int]:
    """Return the bytes in a vector register, and how many vectors of particles fit beside PANEL."""
    features = llvmlite.binding.get_host_cpu_features()
    if features.get("avx512f"):
        return 64, 4
    if features.get("avx"):
        return 32, 2
    many_registers = "aarch64" in llvmlite.binding.get_process_triple()
    return 16, 4 if many_registers else 2


VECTOR_BYTES, VECTORS = _vector_shape()


@intrinsic
def multiply_panel(  # type: ignore[no-untyped-def]
    typing_context, matrix, values, product, depth, panel
) -> Any:
    """Compute product[r, l] = sum_k matrix[panel, k, r] values[k, l], for k < depth.

    Called as ``multiply_panel(matrix, values, product, depth, panel)`` in compiled code, with
    C-contiguous arrays of one floating type: ``matrix`` (panels, capacity, PANEL), ``values``
    (sites, lanes) and ``product`` (PANEL, lanes), where a row of lanes has TILE_BYTES bytes.
    """
    real = matrix.dtype
    size = 4 if real == types.float32 else 8
    lanes = VECTOR_BYTES // size
    row = TILE_BYTES // size
    strip = lanes * VECTORS
    signature = types.void(matrix, values, product, types.intp, types.intp)

    def codegen(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
        element = context.get_value_type(real)
        vector = ir.VectorType(element, lanes)
        integer = context.get_value_type(types.intp)
        arrays = [
            context.make_array(kind)(context, builder, value)
            for kind, value in zip((matrix, values, product), arguments[:3], strict=True)
        ]
        depth_value, panel_value = arguments[3:]

        def constant(number: int) -> Any:
            return ir.Constant(integer, number)

        def pointer(base: Any, offset: Any, kind: Any) -> Any:
            return builder.bitcast(builder.gep(base, [offset]), kind.as_pointer())

        def multiply_add(left: Any, right: Any, total: Any) -> Any:
            flags = ("contract",)
            return builder.fadd(builder.fmul(left, right, flags=flags), total, flags=flags)

        capacity = cgutils.unpack_tuple(builder, arrays[0].shape)[1]
        first = builder.mul(builder.mul(panel_value, capacity), constant(PANEL))
        sums = [
            [cgutils.alloca_once(builder, vector) for _ in range(VECTORS)] for _ in range(PANEL)
        ]
        for start in range(0, row, strip):
            for each in sums:
                for total in each:
                    builder.store(ir.Constant(vector, [0.0] * lanes), total)
            with cgutils.for_range(builder, depth_value) as loop:
                column = builder.add(builder.mul(loop.index, constant(row)), constant(start))
                loaded = [
                    builder.load(
                        pointer(
                            arrays[1].data, builder.add(column, constant(part * lanes)), vector
                        ),
                        align=size,
                    )
                    for part in range(VECTORS)
                ]
                entry = builder.add(first, builder.mul(loop.index, constant(PANEL)))
                for site in range(PANEL):
                    scalar = builder.load(
                        pointer(arrays[0].data, builder.add(entry, constant(site)), element)
                    )
                    single = builder.insert_element(
                        ir.Constant(vector, ir.Undefined), scalar, ir.Constant(ir.IntType(32), 0)
                    )
                    spread = builder.shuffle_vector(
                        single,
                        ir.Constant(vector, ir.Undefined),
                        ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes),
                    )
                    for part in range(VECTORS):
                        total = sums[site][part]
                        builder.store(
                            multiply_add(spread, loaded[part], builder.load(total)), total
                        )
            for site in range(PANEL):
                for part in range(VECTORS):
                    target = constant(site * row + start + part * lanes)
                    builder.store(
                        builder.load(sums[site][part]),
                        pointer(arrays[2].data, target, vector),
                        align=size,
                    )
        return context.get_dummy_value()

    return signature, codegen
