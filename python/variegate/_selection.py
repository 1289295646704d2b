"""Structures that were compared, as a table."""

import math


def selection_table(selection):
    """Make a pandas DataFrame of the structures, or a list of dictionaries where pandas is not installed.

    Parameters
    ----------
    selection : dict or None
        As `FittedModel.selection` gives it. What decided and why go to the `attrs` of the DataFrame.
    """
    if selection is None:
        selection = {"headings": [], "rows": [], "chosen": None, "criterion": "", "reason": "nothing is finished yet"}
    rows = [
        {"structure": name, "chosen": at == selection["chosen"]}
        | {
            heading: math.nan if figure is None else figure
            for heading, figure in zip(selection["headings"], figures, strict=True)
        }
        for at, (name, figures) in enumerate(selection["rows"])
    ]
    try:
        import pandas as pd
    except ImportError:
        return rows
    frame = pd.DataFrame(rows, columns=["structure", "chosen", *selection["headings"]])
    frame.attrs.update(criterion=selection["criterion"], reason=selection["reason"])
    return frame
