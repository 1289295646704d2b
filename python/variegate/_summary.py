"""What a fitted model says of itself."""


class Summary:
    """Facts, a table of quantities and a verdict; printing it shows all three.

    Attributes
    ----------
    facts : dict of str to str
        What was fitted, in the order it should be read.
    columns : list of str
        Headings of the table.
    rows : dict of str to list of float
        One entry a quantity: the numbers under `columns`.
    converged : bool
        Whether the fit can be trusted to have arrived; the reason is in `notes`.
    notes : list of str
        What to know and what to do.
    """

    def __init__(self, parts):
        self.facts = dict(parts["facts"])
        self.columns = list(parts["headings"])
        self.rows = {name: list(numbers) for name, numbers in parts["rows"]}
        self.converged = parts["converged"]
        self.notes = list(parts["notes"])

    def to_frame(self):
        """Return the table as a pandas DataFrame, one row a quantity."""
        import pandas as pd

        return pd.DataFrame.from_dict(self.rows, orient="index", columns=self.columns)

    def to_dict(self):
        """Return everything as plain Python values."""
        return {
            "facts": dict(self.facts),
            "table": {name: dict(zip(self.columns, numbers, strict=True)) for name, numbers in self.rows.items()},
            "converged": self.converged,
            "notes": list(self.notes),
        }

    def __str__(self):
        lines = [f"{name}: {value}" for name, value in self.facts.items()]
        if self.rows:
            cells = [["", *self.columns]]
            cells += [[name, *(f"{number:.4g}" for number in numbers)] for name, numbers in self.rows.items()]
            widths = [max(len(row[j]) for row in cells) for j in range(len(cells[0]))]
            lines.append("")
            for row in cells:
                name, *numbers = (
                    cell.ljust(w) if j == 0 else cell.rjust(w)
                    for j, (cell, w) in enumerate(zip(row, widths, strict=True))
                )
                lines.append("  ".join([name, *numbers]).rstrip())
        if self.notes:
            lines += ["", *self.notes]
        return "\n".join(lines)

    def __repr__(self):
        return str(self)
