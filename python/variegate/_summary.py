"""What a fitted model says of itself."""


class Summary:
    """Figures, tables of quantities and a verdict; printing it shows all three.

    Attributes
    ----------
    facts : dict of str to int, float, dict or str
        What was fitted and found, in the order it should be read: numbers, numbers by name, or words.
    tables : dict of str to dict of str to dict of str to float
        Tables by name; each has a row a quantity, and in it a number a heading.
    columns : list of str
        Headings of the main table.
    rows : dict of str to list of float
        The main table, one entry a quantity: the numbers under `columns`.
    converged : bool
        Whether the fit has converged; the reason is in `notes`.
    warnings : list of str
        What concerns the meaning of what was found.
    notes : list of str
        What else to know and what to do.
    """

    def __init__(self, parts):
        self.facts = {name: value for name, value, _, _ in parts["facts"]}
        self._shown = {name: f"{text} ({remark})" if remark else text for name, _, remark, text in parts["facts"]}
        self._tables = [
            (name, list(headings), [(n, list(x)) for n, x in rows]) for name, headings, rows in parts["tables"]
        ]
        self.columns = self._tables[0][1] if self._tables else []
        self.rows = dict(self._tables[0][2]) if self._tables else {}
        self.converged = parts["converged"]
        self.warnings = list(parts["warnings"])
        self.notes = list(parts["notes"])

    @property
    def tables(self):
        return {
            name: {row: dict(zip(headings, numbers, strict=True)) for row, numbers in rows}
            for name, headings, rows in self._tables
        }

    def to_frame(self, table=None):
        """Return a table as a pandas DataFrame, one row a quantity.

        Parameters
        ----------
        table : str, default=None
            Name of the table; None is the main one.

        Returns
        -------
        DataFrame
            Its index are the quantities.
        """
        import pandas as pd

        if table is None:
            return pd.DataFrame.from_dict(self.rows, orient="index", columns=self.columns)
        return pd.DataFrame.from_dict(self.tables[table], orient="index")

    def to_dict(self):
        """Return everything as plain Python values."""
        return {
            "facts": dict(self.facts),
            "table": {name: dict(zip(self.columns, numbers, strict=True)) for name, numbers in self.rows.items()},
            "tables": self.tables,
            "converged": self.converged,
            "warnings": list(self.warnings),
            "notes": list(self.notes),
        }

    def __str__(self):
        lines = [f"{name}: {value}" for name, value in self._shown.items()]
        for number, (name, headings, rows) in enumerate(self._tables):
            if not rows:
                continue
            cells = [[name if number else "", *headings]]
            cells += [[row, *(f"{x:.4g}" for x in numbers)] for row, numbers in rows]
            widths = [max(len(row[j]) for row in cells) for j in range(len(cells[0]))]
            lines.append("")
            for row in cells:
                first, *others = (
                    cell.ljust(w) if j == 0 else cell.rjust(w)
                    for j, (cell, w) in enumerate(zip(row, widths, strict=True))
                )
                lines.append("  ".join([first, *others]).rstrip())
        said = [f"Warning: {warning}" for warning in self.warnings] + self.notes
        if said:
            lines += ["", *said]
        return "\n".join(lines)

    def __repr__(self):
        return str(self)
