"""The report as one self-contained HTML page, with its figures as files."""
