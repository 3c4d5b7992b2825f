"""Writing integer programs of 0-1 variables as model files."""

from pathlib import Path

import numpy as np
from jaxtyping import Float
from scipy.sparse import csc_array

from datasets.errors import BadInput


def write_binary_program(
    path: Path,
    cost: Float[np.ndarray, " n"],
    matrix: csc_array,
    lower: Float[np.ndarray, " m"],
    upper: Float[np.ndarray, " m"],
    maximise: bool,
) -> None:
    """Write min or max cost x, lower <= matrix x <= upper, x in {0, 1}^n, as MPS; raises BadInput without highspy."""
    try:
        import highspy
    except ImportError as error:
        raise BadInput(
            f"writing models needs the extra packages: pip install -c constraints.txt -e '.[solvers]' ({error})"
        ) from error
    program, (rows, columns) = highspy.HighsLp(), matrix.shape
    program.num_row_, program.num_col_ = rows, columns
    program.sense_ = highspy.ObjSense.kMaximize if maximise else highspy.ObjSense.kMinimize
    program.col_cost_, program.col_lower_, program.col_upper_ = cost, np.zeros(columns), np.ones(columns)
    program.row_lower_, program.row_upper_ = lower, upper
    program.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    program.a_matrix_.start_, program.a_matrix_.index_, program.a_matrix_.value_ = (
        matrix.indptr,
        matrix.indices,
        matrix.data,
    )
    program.integrality_ = [highspy.HighsVarType.kInteger] * columns
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    highs.passModel(program)
    highs.writeModel(str(path))
