"""Runs a notebook and checks that each cell succeeds and that a picture is drawn."""

import sys

import nbclient
import nbformat


def main(path):
    notebook = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    kinds = [
        kind
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        for kind in output.get("data", {})
    ]
    if "image/png" not in kinds:
        sys.exit(f"{path}: no cell has drawn a picture")
    print(f"{path}: {len(notebook.cells)} cells, {kinds.count('image/png')} picture")


main(sys.argv[1])
