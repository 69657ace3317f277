"""What the documents show runs as it stands there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent.parent
DOCUMENTS = [HERE / "README.md", HERE.parent.parent / "docs" / "python.md"]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_a_documents_program_runs(document: Path, tmp_path: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", document.read_text(), re.DOTALL | re.MULTILINE)
    assert blocks
    program = tmp_path / "program.py"
    program.write_text("\n".join(blocks))
    subprocess.run([sys.executable, str(program)], cwd=tmp_path, check=True)


@pytest.mark.parametrize("notebook", sorted((HERE / "notebooks").glob("*.ipynb")), ids=lambda path: path.name)
def test_a_notebook_runs(notebook: Path, tmp_path: Path) -> None:
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    read = nbformat.read(notebook, as_version=4)
    assert all(not cell.get("outputs") for cell in read.cells), "it is kept without results"
    nbclient.NotebookClient(read, timeout=300, resources={"metadata": {"path": os.fspath(tmp_path)}}).execute()
